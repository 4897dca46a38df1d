import json

import torch
from safetensors.torch import load_file

from backend.models.sd3 import SD3
from backend.shapes import pretrain

TINY = ["--pictures", "128", "--autoencoder-steps", "2", "--decoder-steps", "2", "--steps", "2"]
WEIGHTS = "transformer/diffusion_pytorch_model.safetensors"


def test_command_makes_a_base_and_the_number_of_processes_changes_nothing(tmp_path):
    for processes in ("1", "2"):
        folder = tmp_path / processes
        pretrain.main([*TINY, "--work", str(folder), "--out", str(folder / "base"), "--processes", processes])
    one, two = (load_file(tmp_path / processes / "base" / WEIGHTS) for processes in ("1", "2"))
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=0, atol=2e-5)
    stages = [json.loads(line)["stage"] for line in (tmp_path / "1" / "log.jsonl").read_text().splitlines()]
    assert list(dict.fromkeys(stages)) == ["autoencoder", "latents", "decoder"]
    policy = SD3(base=str(tmp_path / "2" / "base")).load(torch.device("cpu"), 0)
    assert policy.latent_shape == (8, 8, 8)


def test_batches_are_a_function_of_seed_and_step():
    ids = torch.arange(40).view(10, 4)
    corpus = pretrain.Corpus(
        torch.zeros(10, 8, 8, 8), torch.zeros(10, 8, 8, 8), ids, -torch.ones(1, 4).long(), 0.0, 2.0
    )
    first, again, other = corpus.batch(0, 3), corpus.batch(0, 3), corpus.batch(0, 4)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[1], other[1])
    # latents of mean 0 and variance 1, scaled by 2
    assert abs(first[0].std() - 2) < 0.05
    emptied = (first[3] < 0).all(1).float().mean()
    assert 0 < emptied < 0.3
