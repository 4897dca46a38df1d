import torch

from backend.benchmarks import features


def test_labels_name_every_object_of_a_picture():
    pictures, labels = features.truths(40, seed=3)
    assert pictures.shape == (40, 3, 64, 64)
    assert float(pictures.min()) >= 0
    assert float(pictures.max()) <= 1
    assert set(labels.unique().tolist()) == {0.0, 1.0}
    assert ((labels.sum(1) >= 1) & (labels.sum(1) <= 4)).all()


def test_training_is_seeded_and_leaves_the_global_stream_alone():
    before = torch.get_rng_state()
    first, second = (features.trained(64, 1, seed=5) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    pictures, _ = features.truths(8, seed=1)
    assert (first.features(pictures) == second.features(pictures)).all()
    assert first.features(pictures).shape == (8, features.WIDTH)


class Oracle(torch.nn.Module):
    """Logits that name the objects of the `truths` of one seed, and of `wrong` pictures no object."""

    def __init__(self, labels, wrong):
        super().__init__()
        self.logits = torch.where(labels.bool(), 1.0, -1.0)
        self.logits[:wrong] = -1.0

    def forward(self, pictures):
        return self.logits


def test_accuracy_counts_pictures_of_which_every_object_is_named():
    _, labels = features.truths(20, seed=1)
    assert features.accuracy(Oracle(labels, 0), 20, seed=1) == 1
    assert features.accuracy(Oracle(labels, 5), 20, seed=1) == 0.75
