import json
from copy import deepcopy
from functools import partial

import torch

from backend.models.sd3 import SD3
from backend.shapes import pretrain, pretrain_transformer
from backend.shapes.bundle import TEXT_LENGTH, build_modules

TINY = [
    "--pictures",
    "128",
    "--autoencoder-steps",
    "2",
    "--decoder-steps",
    "2",
    "--steps",
    "2",
    "--guidance-steps",
    "2",
]


def test_command_makes_a_base_with_two_processes(tmp_path):
    pretrain.main([*TINY, "--work", str(tmp_path), "--out", str(tmp_path / "base"), "--processes", "2"])
    stages = [json.loads(line)["stage"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert list(dict.fromkeys(stages)) == ["autoencoder", "latents", "decoder"]
    policy = SD3(base=str(tmp_path / "base")).load(torch.device("cpu"), 0)
    assert policy.latent_shape == (8, 8, 8)


def test_mean_of_the_shares_gradients_is_that_of_the_batch():
    torch.manual_seed(0)
    modules = build_modules()
    rng = torch.Generator().manual_seed(1)
    x0, eps = torch.randn(8, 8, 8, 8, generator=rng), torch.randn(8, 8, 8, 8, generator=rng)
    batch = (x0, eps, torch.rand(8, generator=rng), torch.randint(2, 200, (8, TEXT_LENGTH), generator=rng))
    parameters = [value for value in modules.transformer.parameters() if value.requires_grad]
    whole = torch.autograd.grad(pretrain_transformer._flow_loss(modules, *batch), parameters)
    shares = [
        torch.autograd.grad(pretrain_transformer._flow_loss(modules, *(part[rank::2] for part in batch)), parameters)
        for rank in range(2)
    ]
    for full, first, second in zip(whole, *shares, strict=True):
        torch.testing.assert_close((first + second) / 2, full, rtol=1e-4, atol=1e-6)


def test_batches_are_a_function_of_seed_and_step():
    ids = torch.arange(40).view(10, 4)
    corpus = pretrain_transformer.Corpus(
        torch.zeros(10, 8, 8, 8), torch.zeros(10, 8, 8, 8), ids, -torch.ones(1, 4).long(), 0.0, 2.0
    )
    first, again, other = corpus.batch(0, 3), corpus.batch(0, 3), corpus.batch(0, 4)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[1], other[1])
    # latents of mean 0 and variance 1, scaled by 2
    assert abs(first[0].std() - 2) < 0.05
    emptied = (first[3] < 0).all(1).float().mean()
    assert 0 < emptied < 0.3


def test_guidance_is_what_the_model_gives_by_itself_once_distilled():
    torch.manual_seed(0)
    modules = build_modules()
    teacher = deepcopy(modules.transformer).requires_grad_(False)
    corpus = pretrain_transformer.Corpus(
        torch.randn(200, 8, 8, 8),
        torch.full((200, 8, 8, 8), -9.0),
        torch.randint(2, 200, (200, TEXT_LENGTH)),
        torch.ones(1, TEXT_LENGTH).long(),
        0.0,
        1.0,
    )
    batch = tuple(part[:16] for part in corpus.batch(0, 0))
    # the untrained model ignores its prompt, so all guidance scales agree: its output layer starts at zero
    torch.nn.init.normal_(modules.transformer.proj_out.weight, std=0.1)
    teacher.load_state_dict(modules.transformer.state_dict())
    loss = partial(pretrain_transformer._guidance_loss, modules, teacher)
    assert loss(1.0, corpus.empty, batch).item() < 1e-10
    before = loss(3.0, corpus.empty, batch)
    assert before.item() > 1e-6
    optimizer = torch.optim.Adam(modules.transformer.parameters(), lr=1e-4)
    for _ in range(20):
        optimizer.zero_grad()
        loss(3.0, corpus.empty, batch).backward()
        optimizer.step()
    assert loss(3.0, corpus.empty, batch) < 0.7 * before
