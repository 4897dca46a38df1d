import contextlib
import json
import signal
import sys
from copy import deepcopy

import psutil
import torch

from backend import flow
from backend.models.wan import Wan
from backend.moving import pretrain
from backend.moving.bundle import CHANNELS, TEXT_LENGTH, build_modules
from backend.moving.prompts import LISTS

TINY = ["--videos", "24", "--frame-steps", "2", "--autoencoder-steps", "2", "--decoder-steps", "2", "--steps", "2"]
TINY += ["--guidance-steps", "2"]
SIZE = {"height": 64, "width": 64, "frames": 9, "dtype": "fp32", "prompt_cache": False, "guidance": 1.0}


def test_command_makes_a_base_with_two_processes(tmp_path):
    pretrain.main([*TINY, "--work", str(tmp_path), "--out", str(tmp_path / "base"), "--processes", "2"])
    stages = [json.loads(line)["stage"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert list(dict.fromkeys(stages)) == ["autoencoder", "latents", "decoder"]
    policy = Wan(base=str(tmp_path / "base"), **SIZE).load(torch.device("cpu"), 0)
    assert policy.latent_shape == (CHANNELS, 5, 8, 8)


def test_distillation_aims_at_the_teachers_guided_velocity():
    """The loss is 0 at the target itself: a teacher of scale 1 is matched by its copy, one of scale 3 is not."""
    torch.manual_seed(0)
    modules = build_modules()
    corpus = _corpus(modules, ["a red circle moves right", "a square moves up on slate"])
    batch = corpus.batch(0, 3)
    teacher = deepcopy(modules.transformer)
    assert pretrain.guidance_loss(modules, corpus, teacher, 1.0, batch) < 1e-10
    x = flow.noise(*batch[:3])
    embeds = [pretrain._conditioning(modules, corpus, rows) for rows in (batch[3], torch.full_like(batch[3], 2))]
    conditional, unconditional = (pretrain._velocity(teacher, x, batch[2], one) for one in embeds)
    expected = ((2 * (conditional - unconditional)) ** 2).mean()
    assert torch.allclose(pretrain.guidance_loss(modules, corpus, teacher, 3.0, batch), expected, rtol=1e-4)
    assert expected > 0


def test_mean_of_the_shares_losses_is_that_of_the_batch():
    torch.manual_seed(0)
    modules = build_modules()
    corpus = _corpus(modules, ["a red circle moves right", "a square moves up on slate"])
    batch = corpus.batch(0, 3)
    shares = [pretrain.flow_loss(modules, corpus, *(part[rank::2] for part in batch)) for rank in range(2)]
    assert torch.allclose(pretrain.flow_loss(modules, corpus, *batch), sum(shares) / 2, atol=1e-6)


def test_latents_that_the_transformer_learns_have_unit_variance_in_every_channel():
    """In a channel that the autoencoder does not use the means are all but equal, and the draws are noise."""
    torch.manual_seed(0)
    mean = torch.randn(500, 2, 5, 8, 8) * torch.tensor([2.0, 0.05]).view(2, 1, 1, 1) + 3
    logvar = torch.tensor([0.1, 0.9]).log().view(2, 1, 1, 1).expand_as(mean)
    centre, std = pretrain.statistics(mean, logvar)
    shift, scale = (value.view(-1, 1, 1, 1) for value in (centre, 1 / std))
    row = torch.zeros(501, 1, dtype=torch.long)
    x0 = pretrain.Corpus(mean, logvar, shift, scale, row, row).batch(0, 0)[0]
    assert torch.allclose(x0.var((0, 2, 3, 4)), torch.ones(2), atol=0.1)
    assert x0.mean().abs() < 0.05


def test_loss_conditions_as_the_pipeline_does():
    """The transformer is trained on what WanPipeline.encode_prompt gives it when it samples."""
    from diffusers import WanPipeline

    torch.manual_seed(0)
    modules = build_modules()
    texts = ["a red circle moves right", "clip of a blue cross moves up and a red square moves down on black"]
    corpus = _corpus(modules, texts)
    seen = []
    modules.transformer.register_forward_pre_hook(
        lambda module, args, given: seen.append(given["encoder_hidden_states"]), with_kwargs=True
    )
    shape = (2, CHANNELS, 5, 8, 8)
    pretrain.flow_loss(modules, corpus, torch.zeros(shape), torch.zeros(shape), torch.ones(2), torch.tensor([0, 1]))
    parts = {"tokenizer": modules.tokenizer, "text_encoder": modules.text_encoder, "scheduler": modules.scheduler}
    pipeline = WanPipeline(vae=None, transformer=None, **parts)
    wanted, _ = pipeline.encode_prompt(texts, do_classifier_free_guidance=False, max_sequence_length=TEXT_LENGTH)
    assert torch.allclose(seen[0], wanted, atol=1e-6)


def _corpus(modules, texts):
    tokens = modules.tokenizer([*texts, ""], padding="max_length", max_length=TEXT_LENGTH, return_tensors="pt")
    latents = torch.randn(len(texts), CHANNELS, 5, 8, 8)
    one = torch.ones(CHANNELS, 1, 1, 1)
    return pretrain.Corpus(latents, latents - 9, 0 * one, one, tokens.input_ids, tokens.attention_mask)


def test_every_word_of_a_prompt_is_one_token():
    tokenizer = build_modules().tokenizer
    for item in LISTS.test:
        assert len(tokenizer(item.text).input_ids) == len(item.text.split()) + 1 <= TEXT_LENGTH, item.text


def test_processes_of_the_training_end_with_the_command_that_started_them(tmp_path):
    arguments = [*TINY, "--steps", "1000000", "--work", str(tmp_path), "--out", str(tmp_path / "base")]
    command = [sys.executable, "-m", "backend.moving.pretrain", *arguments, "--processes", "2"]
    with (tmp_path / "said").open("wb") as said:
        started = psutil.Popen(command, stdout=said, stderr=said)
    children = []
    try:
        while not (children := started.children()) or '"transformer"' not in _log(tmp_path):
            assert started.poll() is None, (tmp_path / "said").read_text()
            with contextlib.suppress(psutil.TimeoutExpired):
                started.wait(0.5)
        started.terminate()
        assert started.wait(60) == 128 + signal.SIGTERM
        assert psutil.wait_procs(children, 60)[1] == []
    finally:
        for one in (started, *children):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()


def _log(folder):
    file = folder / "log.jsonl"
    return file.read_text() if file.exists() else ""
