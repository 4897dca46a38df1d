from __future__ import annotations

import pytest
import torch

from backend.rewards import open_clip
from tests.backend.rewards import tiny_clip


def test_names_and_values_come_back() -> None:
    made = tiny_clip.model("gelu", seed=3)
    found = open_clip.converted(tiny_clip.open_clip_names(made))
    expected = made.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("name", ["visual.extra", "transformer.resblocks.0.attn.unknown.weight"])
def test_a_name_it_does_not_know_is_an_error(name: str) -> None:
    with pytest.raises(KeyError):
        open_clip.converted({name: torch.zeros(1)})
