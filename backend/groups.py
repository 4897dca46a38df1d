"""Stored groups: final latents with their rewards, sampled once, that train without a rollout (offline training).

A folder of two files, written whole or not at all:
    groups.safetensors   leaves [N, G, D...] float32 or float16, rewards [N, G] float64, part.<name> [N, G] float64
    groups.json          `Notes`: one prompt a group, the base, the settings of the rewards, and how they were made

Shape legend
    N stored groups, G samples in each, P groups of a training step, D... latent dimensions.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from backend.checkpoint import digest, sync
from backend.methods.settings import Settings
from backend.types import ALONE, Plan, Policy, Ranks, Rollout, share

TENSORS, NOTES = "groups.safetensors", "groups.json"
PART = "part."
ORDER, MEMBERS = 2, 3  # streams of random numbers; backend.prompts draws from stream 1


class Notes(Settings):
    """What the tensors mean. rewards: the settings of each reward; empty when people judged.

    base      `model.base`, whose latents these are
    made      versions, device, command line (backend.facts), and the checkpoint that sampled them
    config    the YAML they were sampled with
    sha256    of groups.safetensors
    """

    prompts: tuple[str, ...]
    base: str
    rewards: tuple[dict[str, Any], ...]
    made: dict[str, str]
    config: str
    sha256: str = ""


def save(folder: Path, notes: Notes, leaves: Tensor, rewards: Tensor, parts: dict[str, Tensor]) -> Path:
    """Write the folder under a temporary name, sync, rename. Raises ValueError when it exists or shapes disagree."""
    from safetensors.torch import save_file

    if folder.exists():
        raise ValueError(f"groups: {folder} already exists; name another folder, or remove it first")
    for name, value in {"rewards": rewards, **parts}.items():
        if value.shape != leaves.shape[:2] or len(notes.prompts) != len(leaves):
            raise ValueError(
                f"groups: {name} is {list(value.shape)} for leaves {list(leaves.shape)} and {len(notes.prompts)} "
                "prompts; give a prompt for each group and a number for each sample"
            )
    temporary = folder.parent / f".{folder.name}.writing"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    tensors = {"leaves": leaves, "rewards": rewards} | {PART + name: part for name, part in parts.items()}
    save_file({name: value.cpu().contiguous().clone() for name, value in tensors.items()}, temporary / TENSORS)
    noted = notes.model_copy(update={"sha256": digest(temporary / TENSORS)})
    (temporary / NOTES).write_text(noted.model_dump_json(indent=1), encoding="utf-8")
    for name in (TENSORS, NOTES):
        sync(temporary / name)
    temporary.rename(folder)
    sync(folder.parent)
    return folder


class Groups:
    """An opened folder. Latents stay on disk until a step asks for them."""

    def __init__(self, folder: Path, rewards: Sequence[Any]) -> None:
        """The total is that of `rewards`; people's judgements have no parts and stay as they are.

        Raises ValueError unless the folder is whole and unchanged, and holds each reward under the same settings.
        """
        from safetensors import safe_open

        if not (folder / NOTES).is_file():
            raise ValueError(
                f"groups: {folder} holds no {NOTES}; make it with `espalier collect CONFIG --out {folder}`"
            )
        self.folder = folder
        self.notes = Notes.model_validate_json((folder / NOTES).read_text(encoding="utf-8"))
        if not (folder / TENSORS).is_file() or digest(folder / TENSORS) != self.notes.sha256:
            raise ValueError(f"groups: {folder / TENSORS} is missing or changed on disk; collect the groups again")
        self._file = safe_open(folder / TENSORS, "pt")
        self._leaves = self._file.get_slice("leaves")
        self.shape: tuple[int, ...] = tuple(self._leaves.get_shape())
        self.rewards: Tensor = self._file.get_tensor("rewards")
        self.weights: dict[str, float] = {}
        self.parts: dict[str, Tensor] = {}
        if self.notes.rewards:
            self._weigh(rewards)

    def check(self, base: str, latent_shape: Sequence[int], group_size: int, per_step: int) -> None:
        """Raise ValueError unless the groups can train this policy, with so many samples and groups a step."""
        num_groups, stored_size, *latent = self.shape
        if self.notes.base != base:
            raise ValueError(
                f"groups: {self.folder} holds latents of model.base {self.notes.base!r}, and this run trains {base!r}; "
                "collect groups with this base"
            )
        if latent != list(latent_shape):
            raise ValueError(
                f"groups: the latents in {self.folder} are {latent}, those of the model {list(latent_shape)}; "
                "collect groups with this model"
            )
        if stored_size < group_size:
            raise ValueError(
                f"groups: {self.folder} has {stored_size} samples a group and the method needs {group_size}; "
                f"set method.group_size to at most {stored_size}, or collect larger groups"
            )
        if num_groups < per_step:
            raise ValueError(
                f"groups: {self.folder} has {num_groups} groups, fewer than prompts.per_step = {per_step}; "
                "collect more groups or train on fewer a step"
            )

    def _weigh(self, rewards: Sequence[Any]) -> None:
        stored = {one["name"]: one for one in self.notes.rewards}
        for one in rewards:
            if one.name not in stored:
                raise ValueError(
                    f"rewards: {one.name!r} is not stored in {self.folder}, which has {', '.join(stored)}; "
                    "train on those, or collect with this reward"
                )
            if not _agrees(stored[one.name], one):
                raise ValueError(
                    f"rewards: {one.name!r} was stored in {self.folder} with {stored[one.name]}, other settings than "
                    "this run's; use the same, or collect again"
                )
        self.weights = {one.name: one.weight for one in rewards}
        self.parts = {name: self._file.get_tensor(PART + name) for name in self.weights}
        self.rewards = torch.stack([weight * self.parts[name] for name, weight in self.weights.items()]).sum(0)

    def indices(self, seed: int, step: int, per_step: int) -> list[int]:
        """The groups of a step. Each pass over the set has its own order; all are seen once before one comes again."""
        num_groups = self.shape[0]
        places = range(step * per_step, (step + 1) * per_step)
        passes = {place // num_groups for place in places}
        order = {one: np.random.default_rng([seed, one, ORDER]).permutation(num_groups) for one in passes}
        return [int(order[place // num_groups][place % num_groups]) for place in places]

    def rollout(
        self,
        policy: Policy,
        sigmas: Tensor,
        seed: int,
        step: int,
        per_step: int,
        group_size: int,
        ranks: Ranks = ALONE,
    ) -> Rollout:
        """P groups of group_size samples, a function of seed and step, as a method meets them.

        Where processes share them, each reads the latents of its own alone. Of larger groups the samples are drawn
        without repeats, anew each time. sigmas is the grid of training times.
        """
        rows = self.indices(seed, step, per_step)
        rng = np.random.default_rng([seed, step, MEMBERS])
        members = [torch.from_numpy(np.sort(rng.permutation(self.shape[1])[:group_size])) for _ in rows]

        def chosen(values: Tensor) -> Tensor:
            return torch.stack([values[row][some] for row, some in zip(rows, members, strict=True)])

        prompts, own = tuple(self.notes.prompts[row] for row in rows), share(per_step, ranks)
        leaves = [self._leaves[rows[i] : rows[i] + 1][0][members[i]].float() for i in own]
        unknown = torch.full((per_step, group_size), torch.nan)
        return Rollout(
            plan(sigmas, group_size),
            prompts,
            policy.encode([prompts[i] for i in own]),
            (torch.stack(leaves).to(policy.device),),
            (unknown,) * (len(sigmas) - 1),
            rewards=chosen(self.rewards),
            parts={name: chosen(part) for name, part in self.parts.items()},
            part_weights=self.weights,
            ranks=ranks,
        )


def plan(sigmas: Tensor, group_size: int) -> Plan:
    """What a stored group looks like to a method: separate chains, of which only the leaves are known."""
    num_steps = len(sigmas) - 1
    chains = (torch.arange(group_size),) * num_steps
    return Plan(sigmas, chains, torch.zeros(num_steps, dtype=torch.float64), shared_noise=False, keep="last")


def _agrees(stored: dict[str, Any], reward: Settings) -> bool:
    """Whether both give the same numbers before the weight; settings that were not yet known count as default."""
    return type(reward).model_validate(stored | {"weight": reward.model_dump()["weight"]}) == reward
