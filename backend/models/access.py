"""Whether a run can have its base, asked before it is queued. No torch, so that the web process can ask."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from backend.models.source import is_hub_id, local_file

TOKEN = "set HF_TOKEN for the web process and the worker, or run `hf auth login`"


def check_access(base: str, pipelines: Sequence[str], endpoint: str | None = None) -> None:
    """Returns when `base` is a folder that holds one of the pipelines, or a hub id that may be downloaded.

    pipelines  class names that the family loads;  endpoint  another hub than the one that HF_ENDPOINT names.
    Raises ValueError with the remedy: no such folder, another family, no such id, gated, no token, no network.
    """
    if Path(base).is_dir():
        _check_folder(Path(base), pipelines)
    elif not is_hub_id(base):
        raise ValueError(
            f"model.base: {base!r} is neither a folder on this machine nor a hub id; "
            "give the folder of a diffusers pipeline, or an id such as stabilityai/stable-diffusion-3.5-medium"
        )
    else:
        _check_hub(base, endpoint)
        if (index := local_file(base, "model_index.json")) is not None:
            _check_folder(index.parent, pipelines)


def _check_folder(folder: Path, pipelines: Sequence[str]) -> None:
    index = folder / "model_index.json"
    if not index.is_file():
        raise ValueError(f"model.base: {folder} holds no model_index.json; give the folder of a diffusers pipeline")
    found = json.loads(index.read_text(encoding="utf-8")).get("_class_name")
    if found not in pipelines:
        raise ValueError(
            f"model.base: {folder} is a {found}, and this family loads {' or '.join(pipelines)}; "
            "set model.family to the base's own"
        )


def _check_hub(base: str, endpoint: str | None) -> None:
    """A hub that does not answer is no matter when the base has been downloaded before."""
    from huggingface_hub import HfApi, get_token
    from huggingface_hub.errors import GatedRepoError, HTTPError, OfflineModeIsEnabled, RepositoryNotFoundError

    where = f"https://huggingface.co/{base}"
    try:
        HfApi(endpoint=endpoint).auth_check(base)
    except GatedRepoError as error:
        remedy = f"accept its licence at {where}" + ("" if get_token() else f", then {TOKEN}")
        raise ValueError(f"model.base: {base!r} is gated, and this machine may not download it; {remedy}") from error
    except RepositoryNotFoundError as error:
        remedy = "check the id, and that the token's account may see it" if get_token() else f"check the id, or {TOKEN}"
        raise ValueError(f"model.base: {base!r} is not on the hub, or is private; {remedy}") from error
    except (HTTPError, OfflineModeIsEnabled, OSError) as error:
        if local_file(base, "model_index.json") is None:
            raise ValueError(
                f"model.base: {base!r} is not on this machine, and the hub cannot be reached ({error}); connect the "
                f"machine, or copy the pipeline's folder to it and give its path"
            ) from error
