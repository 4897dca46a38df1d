import json
import math

import pytest

from backend.models import source

FLUX = {"use_dynamic_shifting": True, "base_shift": 0.5, "max_shift": 1.15, "shift": 3.0}


@pytest.mark.parametrize(("scheduler", "tokens", "shift"), [
    ({"shift": 3.0}, 1024, 3.0),
    ({"flow_shift": 5.0, "use_flow_sigmas": True}, 1024, 5.0),
    ({}, 1024, 1.0),
    (FLUX, 256, math.exp(0.5)),
    (FLUX, 4096, math.exp(1.15)),
    (FLUX, 2176, math.exp(0.825)),  # half of the way: 0.5 + 0.65 / 2
    (FLUX | {"time_shift_type": "linear"}, 4096, 1.15),
])  # fmt: skip
def test_a_schedulers_config_asks_for_a_shift(scheduler, tokens, shift):
    assert source.time_shift(scheduler, tokens) == pytest.approx(shift)


def test_the_dynamic_shift_gives_the_schedulers_own_sigmas():
    import numpy as np
    from diffusers import FlowMatchEulerDiscreteScheduler

    from backend import flow

    scheduler = FlowMatchEulerDiscreteScheduler(**FLUX)
    scheduler.set_timesteps(sigmas=np.linspace(1, 1 / 7, 7), mu=0.5 + 0.65 * (1000 - 256) / 3840)
    assert flow.grid(7, source.time_shift(FLUX, 1000)).numpy() == pytest.approx(scheduler.sigmas.numpy(), abs=1e-6)


@pytest.mark.parametrize(("base", "is_id"), [
    ("stabilityai/stable-diffusion-3.5-medium", True),
    ("shapes", False), ("./owner/name", False), ("../name", False), ("/models/flux", False), ("~/flux", False),
    ("a/b/c", False), ("owner/", False),
])  # fmt: skip
def test_a_hub_id_is_owner_and_name(base, is_id):
    assert source.is_hub_id(base) == is_id


def test_files_are_read_from_a_folder_and_are_none_elsewhere(tmp_path):
    (tmp_path / "vae").mkdir()
    (tmp_path / "vae" / "config.json").write_text(json.dumps({"z_dim": 4}))
    assert source.read_config(str(tmp_path), "vae/config.json") == {"z_dim": 4}
    assert source.read_config(str(tmp_path), "transformer/config.json") is None
    assert source.read_config("nobody/has-this", "vae/config.json") is None
    assert source.read_config(str(tmp_path / "absent"), "vae/config.json") is None


def test_a_folders_identity_follows_its_text_encoders_alone(tmp_path):
    for part in ("text_encoder", "tokenizer_2", "transformer"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "file").write_text("one")
    before = source.text_identity(str(tmp_path))
    (tmp_path / "transformer" / "file").write_text("two")
    assert source.text_identity(str(tmp_path)) == before
    (tmp_path / "tokenizer_2" / "file").write_text("two")
    assert source.text_identity(str(tmp_path)) != before
