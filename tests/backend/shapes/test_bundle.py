"""The bundled base's tokenizers are those that the architecture's code makes, in any process."""

import subprocess
import sys

import pytest
from transformers import CLIPTokenizer

from backend.shapes.bundle import BASE, build_modules
from backend.shapes.prompts import LISTS

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
