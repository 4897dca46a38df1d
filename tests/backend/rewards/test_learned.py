"""A reward fitted to votes: fitted, stored, opened, and higher where votes went."""

import numpy as np
import pytest
import torch
from PIL import Image

from backend.preferences import judged_folder
from backend.rewards.learned import Fitted, Learned, beside, opened
from backend.rewards.preference_fit import fit
from backend.shapes import render
from backend.shapes.prompts import parse
from tests.backend.preferences.test_decided import archive_of

COLORS = ("red", "green", "blue", "yellow", "purple", "white")
TEXTS = [f"a {color} {shape}" for shape in ("circle", "square") for color in COLORS]


def drawn(text, seed):
    return render.draw(render.place(parse(text), np.random.default_rng(seed)))


def tensor(levels):
    return torch.from_numpy(levels.copy()).permute(2, 0, 1)[None, None].float() / 255


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Twelve prompts, each with its own picture, which wins, and that of the next prompt."""
    home = tmp_path_factory.mktemp("learned")
    archive = archive_of([[("left", True, False)]] * len(TEXTS))
    pairs = []
    for place, text in enumerate(TEXTS):
        names = [f"{place:063d}{side}" for side in "ab"]
        for name, shown in zip(names, (text, TEXTS[place - 1]), strict=True):
            Image.fromarray(drawn(shown, place)).save(home / f"{name}.png")
        named = {"prompt": text, "image_a": names[0], "image_b": names[1]}
        pairs.append(archive.pairs[place].model_copy(update=named))
    folder = judged_folder.write(
        home / "votes", archive.model_copy(update={"pairs": pairs}), lambda name: home / f"{name}.png"
    )
    seen = []
    found = fit(folder, "shapes", home / "out.safetensors", "set 7", lambda *counts: seen.append(counts))
    assert seen == [(24, 24)]  # two pictures a pair, all in one batch
    return home / "out.safetensors", folder, found


def test_what_it_was_fitted_to_stands_beside_it(fitted):
    file, folder, found = fitted
    assert Fitted.model_validate_json(beside(file).read_text()) == found
    assert (found.folder, found.pairs, found.votes, found.left_out) == (str(folder), 12, 12, {})
    assert (found.set, found.set_id) == ("set", "set 7")
    assert found.fitted_at is not None
    assert found.accuracy.value > 0.8  # a picture of the prompt against one of another


def test_it_prefers_what_votes_preferred_on_other_prompts(fitted):
    reward = Learned(file=str(fitted[0]))
    frames = torch.cat([tensor(drawn(text, 1)) for text in ("a red star", "a green ring")])
    same = reward.score(frames, ["a red star", "a green ring"])
    swapped = reward.score(frames, ["a green ring", "a red star"])
    assert (same.dtype, same.shape) == (torch.float64, (2,))
    assert (same > swapped).all()


def test_scores_of_the_judged_pictures_are_about_zero_on_average(fitted):
    frames = torch.cat([tensor(drawn(text, place)) for place, text in enumerate(TEXTS)])
    others = torch.cat([tensor(drawn(TEXTS[place - 1], place)) for place in range(len(TEXTS))])
    reward = Learned(file=str(fitted[0]))
    every = torch.cat([reward.score(frames, TEXTS), reward.score(others, TEXTS)])
    assert float(every.mean()) == pytest.approx(0, abs=1e-4)


def test_a_file_that_is_not_there_or_of_other_features_is_refused(fitted, tmp_path):
    frames = tensor(drawn("a red star", 1))
    for file in ("", str(tmp_path / "none.safetensors")):
        with pytest.raises(ValueError, match=r"rewards\.learned\.file: .* is not there"):
            Learned(file=file).score(frames, ["a red star"])
    file, _, found = fitted
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(file.read_bytes())
    beside(copy).write_text(found.model_copy(update={"draws": 99}).model_dump_json())
    with pytest.raises(ValueError, match="fitted on other features"):
        opened(str(copy))
