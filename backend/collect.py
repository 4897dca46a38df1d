"""Sample groups once and store them with their rewards, for offline training: `espalier collect`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import torch

from backend import checkpoint, first_frames, groups
from backend.clock import Clock
from backend.config import RunConfig, dump, load
from backend.device import pick
from backend.facts import environment
from backend.rewards.judging import RewardFailed
from backend.train import NonFinite, Trainer


def collect(
    config: RunConfig,
    folder: Path,
    num_groups: int,
    weights: Path | None = None,
    dtype: torch.dtype = torch.float32,
    on_groups: Callable[[int], object] = lambda number: None,
) -> Path:
    """Roll out the config's method on its prompts from step 0 on, until num_groups are there; store them in folder.

    weights  a checkpoint folder; None samples the base itself
    dtype    of the stored latents; float16 halves the folder and rounds them to 11 bits
    Raises ValueError for a folder that exists or weights that do not fit. Everything is in memory until it is written.
    """
    if folder.exists():
        raise ValueError(f"--out: {folder} already exists; name another folder, or remove it first")
    first_frames.forbid_own(config, "stored groups keep texts alone, so a prompt's own picture would be lost")
    policy = config.model.load(pick(), config.seed)
    if weights is not None:
        checkpoint.load_weights(weights, policy, prefer_ema=True)
    trainer = Trainer(config, folder, policy, emit=lambda event: None)
    rollouts = []
    with closing(trainer.scorer):
        for first in range(0, num_groups, config.prompts.per_step):
            rollouts.append(trainer.roll_out(first // config.prompts.per_step, Clock()))
            on_groups(min(config.prompts.per_step, num_groups - first))
    prompts = [prompt for one in rollouts for prompt in one.prompts]
    notes = groups.Notes(
        prompts=tuple(prompts[:num_groups]),
        base=config.model.base,
        rewards=tuple(reward.model_dump(mode="json") for reward in config.rewards),
        made=environment(policy.device) | {"checkpoint": str(weights) if weights else "none, the base"},
        config=dump(config),
    )
    names = [reward.name for reward in config.rewards]
    return groups.save(
        folder,
        notes,
        torch.cat([one.states[-1].to("cpu", dtype) for one in rollouts])[:num_groups],
        torch.cat([one.rewards for one in rollouts if one.rewards is not None])[:num_groups],
        {name: torch.cat([one.parts[name] for one in rollouts])[:num_groups] for name in names},
    )


def main(argv: list[str]) -> int:
    from tqdm import tqdm

    parser = argparse.ArgumentParser(
        prog="espalier collect",
        description="Sample groups once, score and store them. A run whose `groups` names the folder trains on them.",
    )
    parser.add_argument("config", type=Path, help="a YAML file; its method samples, its rewards score")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder to make (default: the config's `groups`)")
    parser.add_argument("--groups", type=int, required=True, metavar="N", help="groups to store, one prompt each")
    parser.add_argument("--checkpoint", type=Path, metavar="DIR", help="sample these weights instead of the base")
    parser.add_argument("--half", action="store_true", help="store the latents as float16")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="override a setting")
    options = parser.parse_args(argv)
    try:
        config = load(options.config, options.set)
        folder = options.out or (Path(config.groups) if config.groups else None)
        if folder is None or options.groups < 1:
            raise ValueError("--out and --groups: name a folder for the groups, and ask for at least one group")
        config = config.model_copy(update={"groups": None})
        bar = tqdm(total=options.groups, unit="group", dynamic_ncols=True)
        dtype = torch.float16 if options.half else torch.float32
        collect(config, folder, options.groups, options.checkpoint, dtype, bar.update)
        bar.close()
    except (ValueError, NonFinite, RewardFailed) as error:
        print(f"espalier collect: {error}", file=sys.stderr)
        return 2
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{options.groups} groups in {folder}, {size / 1e6:.1f} MB")
    return 0
