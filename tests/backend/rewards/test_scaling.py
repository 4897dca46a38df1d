"""The table of scales, docs/rewards.md and the settings say the same, and the examples of the page run."""

from __future__ import annotations

import base64
import io
import re
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import torch
from PIL import Image

from backend.config import AnyReward
from backend.rewards.hook import numbers
from backend.rewards.reward_server import RewardServer
from backend.rewards.scaling import TABLE

PAGE = (Path(__file__).parents[3] / "docs" / "rewards.md").read_text(encoding="utf-8")
KINDS = {kind.model_fields["name"].default: kind for kind in get_args(get_args(AnyReward)[0])}


def example(name: str) -> SimpleNamespace:
    """What the page's block of code of this name defines."""
    match = re.search(rf"```python {name}\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None
    defined: dict[str, Any] = {"__name__": name}
    exec(match[1], defined)
    return SimpleNamespace(**defined)


def test_default_weights_are_those_of_the_table() -> None:
    for name, scaling in TABLE.items():
        weight = KINDS[name].model_fields["weight"]
        assert weight.default == scaling.weight
        assert scaling.source in str(weight.description)


def test_the_page_has_the_table() -> None:
    for name, scaling in TABLE.items():
        share = "1" if scaling.weight == 1 else f"1/{round(1 / scaling.weight)}"
        assert f"| `{name}` | {scaling.raw} | {share} | {scaling.source} |" in PAGE


def test_the_page_names_every_reward_and_its_checkpoint() -> None:
    for name, kind in KINDS.items():
        assert f"`{name}`" in PAGE
        for field in ("checkpoint", "weights", "predictor"):
            if field in kind.model_fields:
                owner, repository, *_ = kind.model_fields[field].default.split("/")
                assert f"`{owner}/{repository}`" in PAGE


def test_the_pages_function_judges_sunsets_alone() -> None:
    frames = torch.zeros(2, 1, 3, 4, 4)
    frames[:, :, 0] = 0.75
    found = numbers(example("hook").score(frames, ["a sunset", "a cat"], [{}, {}]), 2, "example")
    assert float(found[0]) == 0.75
    assert found[1].isnan()


def test_the_pages_server_keeps_the_contract() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), example("server").Handler)
    server.RequestHandlerClass.log_message = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    frames = torch.zeros(2, 1, 3, 4, 4)
    frames[1, :, 0] = 1.0
    reward = RewardServer(url=f"http://127.0.0.1:{server.server_address[1]}/score")
    assert reward.score(frames, ["a", "b"], [{}, {}]).tolist() == pytest.approx([0.0, 1.0])
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_field_is_explained(name: str) -> None:
    for field, info in KINDS[name].model_fields.items():
        assert info.description or field == "name", field


def test_png_is_what_the_page_says() -> None:
    from backend.rewards.served import png

    assert Image.open(io.BytesIO(base64.b64decode(png(torch.zeros(3, 2, 2))))).format == "PNG"
