import pytest
import torch

from backend.models.prompt_cache import PromptCache
from backend.models.texts import Texts, at_work

CPU = torch.device("cpu")


class Encoder(torch.nn.Module):
    """Length and first letter of a text. Remembers where it was sent, and what it was asked."""

    def __init__(self):
        super().__init__()
        self.sent, self.asked = [], []

    def to(self, device):
        self.sent.append(str(device))
        return self


class Pipeline:
    def __init__(self):
        self.encoder = Encoder()
        self.components = {"text_encoder": self.encoder, "text_encoder_2": None, "vae": Encoder()}


def encode(pipeline, texts):
    pipeline.encoder.asked.append(texts)
    return (
        torch.tensor([[float(len(text))] for text in texts]),
        torch.tensor([[ord(text[0])] * 2 for text in texts], dtype=torch.bfloat16),
    )


def test_without_a_cache_texts_are_encoded_in_one_batch():
    pipeline = Pipeline()
    lengths, letters = Texts(lambda: pipeline, encode, CPU)(["ab", "c"])
    assert (lengths.tolist(), letters.tolist()) == ([[2.0], [1.0]], [[97.0, 97.0], [99.0, 99.0]])
    assert pipeline.encoder.asked == [["ab", "c"]]


def test_with_a_cache_each_text_is_encoded_once_and_alone(tmp_path):
    pipeline = Pipeline()
    texts = Texts(lambda: pipeline, encode, CPU, PromptCache(tmp_path, ["base"]))
    first = texts(["ab", "c", "ab"])
    assert pipeline.encoder.asked == [["ab"], ["c"]]
    again = Texts(lambda: pipeline, encode, CPU, PromptCache(tmp_path, ["base"]))(["ab", "c", "ab"])
    assert pipeline.encoder.asked == [["ab"], ["c"]]
    assert all(torch.equal(one, other) and one.dtype == other.dtype for one, other in zip(first, again, strict=True))


def test_other_facts_are_other_entries(tmp_path):
    cache = PromptCache(tmp_path, ["base", 256])
    cache.put("a star", [torch.ones(1, 2)])
    assert PromptCache(tmp_path, ["base", 512]).get("a star") is None
    assert cache.get("a  star") is None
    (found,) = cache.get("a star")
    assert torch.equal(found, torch.ones(1, 2))


def test_released_encoders_are_loaded_only_for_texts_that_are_not_there(tmp_path):
    loaded = []

    def load():
        loaded.append(Pipeline())
        return loaded[-1]

    texts = Texts(load, encode, CPU, PromptCache(tmp_path, []), release=True)
    assert (len(loaded), texts.held) == (0, None)
    texts(["ab", "c"]), texts(["c"])
    assert len(loaded) == 1
    texts(["d"])
    assert (len(loaded), texts.held) == (2, None)


def test_filling_loads_the_encoders_once_for_all_texts(tmp_path):
    loaded = []

    def load():
        loaded.append(Pipeline())
        return loaded[-1]

    texts = Texts(load, encode, CPU, PromptCache(tmp_path, []), release=True)
    texts.fill(["ab", "c", "ab"])
    texts.fill(["c"])
    assert [one.encoder.asked for one in loaded] == [[["ab"], ["c"]]]
    assert texts(["c", "ab"])[0].tolist() == [[1.0], [2.0]]
    assert len(loaded) == 1


def test_resting_encoders_are_on_the_device_only_while_they_work():
    pipeline = Pipeline()
    texts = Texts(lambda: pipeline, encode, torch.device("cpu"), resting=True)
    assert pipeline.encoder.sent == []
    texts(["ab"])
    assert pipeline.encoder.sent == ["cpu", "cpu"]
    assert pipeline.components["vae"].sent == []


def test_modules_go_back_to_rest_after_an_error():
    module = Encoder()
    with pytest.raises(ZeroDivisionError), at_work([module], torch.device("meta"), resting=True):
        1 / 0  # noqa: B018
    assert module.sent == ["meta", "cpu"]
