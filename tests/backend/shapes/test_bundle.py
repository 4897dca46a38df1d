"""The bundled base: its tokenizers are those that the architecture's code makes, and its autoencoder keeps scenes."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from transformers import CLIPTokenizer

from backend.config import load, preset_path
from backend.media import quantise
from backend.shapes.bundle import BASE, build_modules
from backend.shapes.prompts import LISTS
from backend.shapes.render import render
from backend.shapes.verify import verify

VOCABULARY = (
    "from backend.shapes.bundle import build_modules; print(sorted(build_modules().tokenizer.get_vocab().items()))"
)


@pytest.mark.parametrize("name", ["tokenizer", "tokenizer_2"])
def test_bundled_vocabulary_is_the_codes_own(name):
    assert CLIPTokenizer.from_pretrained(BASE / name).get_vocab() == build_modules().tokenizer.get_vocab()


def test_vocabulary_is_the_same_in_every_process():
    made = subprocess.run([sys.executable, "-c", VOCABULARY], capture_output=True, text=True, check=True).stdout
    assert made.strip() == str(sorted(build_modules().tokenizer_2.get_vocab().items()))


def test_every_word_of_a_prompt_is_one_token():
    tokenizer = build_modules().tokenizer
    for item in LISTS.test:
        assert len(tokenizer(item.text).input_ids) == len(item.text.split()) + 2, item.text


def test_the_autoencoder_keeps_true_pictures_correct():
    """So strict accuracy is bounded by the transformer, not by the decoder."""
    chosen = LISTS.test[::5]
    rng = np.random.default_rng(0)
    truths = np.stack([render(one.scene, rng) for one in chosen])
    policy = load(preset_path("shapes-branchgrpo")).model.load(torch.device("cpu"), 0)
    frames = torch.from_numpy(truths).permute(0, 3, 1, 2)[:, None].float() / 255
    with torch.no_grad():
        decoded = quantise(policy.decode(policy.encode_frames(frames)))
    verdicts = verify(decoded[:, 0].permute(0, 2, 3, 1).numpy(), [one.scene for one in chosen])
    assert np.mean([one.strict for one in verdicts]) >= 0.97
