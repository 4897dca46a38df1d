"""A run's whole configuration: strict, one YAML file, overridable value by value."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self, get_args

import yaml
from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from backend import flow
from backend.methods.awm import AWM
from backend.methods.branchgrpo import BranchGRPO
from backend.methods.dancegrpo import DanceGRPO
from backend.methods.ddpo import DDPO
from backend.methods.dgpo import DGPO
from backend.methods.dpo import DPO
from backend.methods.dpok import DPOK
from backend.methods.flowgrpo import FlowGRPO
from backend.methods.grpoguard import GRPOGuard
from backend.methods.mixgrpo import MixGRPO
from backend.methods.nft import NFT
from backend.methods.pruning import Pruning
from backend.methods.refl import ReFL
from backend.methods.settings import Settings
from backend.methods.tempflow import TempFlow
from backend.methods.vgrpo import VGRPO
from backend.methods.window_schedule import Schedule
from backend.models.flux import Flux
from backend.models.sd3 import SD3
from backend.models.wan import Wan
from backend.models.weights import Tuning
from backend.prompts.reading import ENDINGS
from backend.prompts.sources import AnyPrompts, ShapesTrain
from backend.rewards.aesthetic import Aesthetic
from backend.rewards.clipscore import CLIPScore
from backend.rewards.geneval import GenEval
from backend.rewards.hook import Hook
from backend.rewards.hpsv2 import HPSv2
from backend.rewards.image_statistics import Brightness, EdgeDensity, Saturation
from backend.rewards.imagereward import ImageReward
from backend.rewards.jpeg_size import JPEGSize
from backend.rewards.learned import Learned
from backend.rewards.moving import MovingReward
from backend.rewards.nearest_truth import NearestTruth
from backend.rewards.ocr import OCR
from backend.rewards.pickscore import PickScore
from backend.rewards.reward_server import RewardServer
from backend.rewards.shapes import ShapesReward
from backend.rewards.videoalign import VideoAlign
from backend.rewards.vision_language import VisionLanguage
from backend.scoring import Scoring
from backend.worlds import HELD_OUT

CONFIGS = Path(__file__).parent.parent / "configs"
AnyMethod = Annotated[
    BranchGRPO
    | DanceGRPO
    | FlowGRPO
    | MixGRPO
    | TempFlow
    | GRPOGuard
    | DGPO
    | VGRPO
    | NFT
    | AWM
    | DPO
    | DDPO
    | DPOK
    | ReFL,
    Field(discriminator="name"),
]
AnyModel = Annotated[SD3 | Flux | Wan, Field(discriminator="family")]
AnyReward = Annotated[
    ShapesReward
    | MovingReward
    | NearestTruth
    | Learned
    | CLIPScore
    | PickScore
    | HPSv2
    | ImageReward
    | VideoAlign
    | Aesthetic
    | GenEval
    | OCR
    | JPEGSize
    | Brightness
    | Saturation
    | EdgeDensity
    | VisionLanguage
    | RewardServer
    | Hook,
    Field(discriminator="name"),
]


class Sampling(Settings):
    """The grid of denoising steps, in training and in evaluation."""

    steps: int = Field(20, ge=2, le=200, description="Denoising steps T of a training rollout (BranchGRPO 20)")
    evaluation_steps: int = Field(
        20, ge=2, le=200, description="Denoising steps when held-out prompts are sampled (ODE)"
    )
    shift: float | None = Field(
        None,
        gt=0,
        le=20,
        description="Time shift s: sigma <- s sigma / (1 + (s - 1) sigma); empty = the base's own at its size "
        "(the bundled base 1, SD3 and Wan2.1 3, FLUX.1-dev 1.6 to 3.2; DanceGRPO, BranchGRPO and MixGRPO 3)",
    )
    micro_batch: int = Field(
        512, ge=1, le=65536, description="Most latents in one forward of a rollout or an evaluation (ours)"
    )


class Optimizer(Settings):
    """AdamW."""

    learning_rate: float = Field(1e-4, gt=0, le=1, description="Learning rate after warm-up")
    weight_decay: float = Field(1e-4, ge=0, le=1, description="Decoupled weight decay (all released scripts 1e-4)")
    beta1: float = Field(0.9, ge=0, lt=1, description="Decay of the first moment")
    beta2: float = Field(0.999, ge=0, lt=1, description="Decay of the second moment")
    epsilon: float = Field(
        1e-8, gt=0, le=1, description="Added to the root of the second moment (all released scripts 1e-8)"
    )
    max_grad_norm: float = Field(
        1.0, gt=0, description="The gradient is scaled down to this norm (released scripts 1.0)"
    )
    warmup: int = Field(0, ge=0, description="Training steps over which the learning rate rises linearly from 0")
    ema_decay: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Evaluate and watch a moving average of the weights (BranchGRPO 0.995); empty = none",
    )


class Evaluation(Settings):
    """Held-out prompts, sampled with fixed seeds before the first step, at the end, and in between if asked for."""

    prompts: str = Field(
        "shapes-test",
        description=f"The held-out prompts: {' or '.join(HELD_OUT)}, or a file of them (docs/prompts.md)",
    )
    seeds: tuple[int, ...] = Field(
        (1, 2), min_length=1, description="Noise seeds; each prompt is sampled once with each"
    )
    every: int = Field(
        0, ge=0, description="Steps between evaluations; 0 = only before the first step and after the last"
    )
    limit: int = Field(0, ge=0, description="Use only this many prompts, spread over the tasks; 0 = all")
    shown: int = Field(48, ge=0, description="Prompts whose samples are kept for the pages, spread over the tasks")
    shown_seeds: int = Field(
        1, ge=1, description="Samples kept of each of these prompts; of two or more, people can judge which is better"
    )
    leave_out: tuple[int, ...] = Field(
        (), description="Places in the list of prompts that are not evaluated, since a run on votes trains on them"
    )
    rewards: tuple[AnyReward, ...] = Field(
        (), description="Scored when the run is evaluated and never trained on: an alarm when they fall as rewards rise"
    )

    @field_validator("prompts")
    @classmethod
    def _is_a_list(cls, prompts: str) -> str:
        if prompts not in HELD_OUT and Path(prompts).suffix.lower() not in ENDINGS:
            raise ValueError(f"give {', '.join(HELD_OUT)}, or a file of prompts that ends in {', '.join(ENDINGS)}")
        return prompts

    @field_validator("seeds")
    @classmethod
    def _seeds_differ(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        if repeated := sorted({seed for seed in seeds if seeds.count(seed) > 1}):
            given = ", ".join(map(str, repeated))
            raise ValueError(f"{given} stands there more than once and would give one sample; name each seed once")
        return seeds

    @model_validator(mode="after")
    def _seeds_are_there(self) -> Self:
        if self.shown_seeds > len(self.seeds):
            raise ValueError(f"shown_seeds: {self.shown_seeds} of {len(self.seeds)} seeds; name more in `seeds`")
        return self

    @property
    def held_out(self) -> list[str]:
        """Names of the rewards that the run does not train on."""
        return [one.name for one in self.rewards]


class Logging(Settings):
    """What is kept for the pages."""

    tree_every: int = Field(5, ge=1, description="Steps between kept rollout trees")
    samples_every: int = Field(20, ge=1, description="Steps between samples of the watched prompts")
    checkpoint_every: int = Field(100, ge=1, description="Steps between checkpoints; the last step always has one")


class RunConfig(Settings):
    """Everything that decides a run's result."""

    name: str = Field("run", min_length=1, max_length=120, description="Shown in lists; need not be unique")
    seed: int = Field(0, ge=0, lt=2**31, description="Decides every random draw of the run")
    steps: int = Field(100, ge=1, le=10_000_000, description="Training steps: one rollout of P groups and its updates")
    model: AnyModel = SD3()
    method: AnyMethod = BranchGRPO()
    rewards: tuple[AnyReward, ...] = Field(
        (ShapesReward(),), min_length=1, validate_default=True, description="Summed with their weights"
    )
    prompts: AnyPrompts = Field(ShapesTrain(), description="Where the training prompts come from")
    groups: str | None = Field(
        None,
        min_length=1,
        description="Folder of stored groups (espalier collect) or of judged pairs (espalier votes) to train on, "
        "prompts.per_step groups a step; empty: sample",
    )
    processes: int = Field(
        1,
        ge=1,
        le=64,
        description="Processes that train together, a GPU each, every one on its share of a step's prompts (ours)",
    )
    sampling: Sampling = Sampling()
    scoring: Scoring = Scoring()
    optimizer: Optimizer = Optimizer()
    evaluation: Evaluation = Evaluation()
    logging: Logging = Logging()

    @model_validator(mode="after")
    def _method_fits_grid(self) -> Self:
        self.method.plan(0, self.grid())
        return self

    @field_validator("processes")
    @classmethod
    def _prompts_divide(cls, processes: int, info: ValidationInfo) -> int:
        prompts = info.data.get("prompts")
        if prompts is not None and prompts.per_step % processes:
            raise ValueError(
                f"{processes} processes cannot share prompts.per_step = {prompts.per_step} evenly, since a group stays "
                f"whole; make prompts.per_step a multiple of {processes}, or choose another number of processes"
            )
        return processes

    @field_validator("rewards")
    @classmethod
    def _rewards_fit_method(cls, rewards: tuple[AnyReward, ...], info: ValidationInfo) -> tuple[AnyReward, ...]:
        names = [one.name for one in rewards]
        if repeated := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise ValueError(
                f"{repeated[0]} is there {names.count(repeated[0])} times; name each once, with its weight"
            )
        blunt = [one.name for one in rewards if not one.differentiable]
        if blunt and isinstance(info.data.get("method"), ReFL):
            raise ValueError(f"refl needs rewards with gradients, and {blunt[0]} has none; use nearest_truth or CLIP")
        return rewards

    @model_validator(mode="after")
    def _held_out_is_not_trained(self) -> Self:
        every: list[str] = [one.name for one in (*self.rewards, *self.evaluation.rewards)]
        if repeated := [name for name in self.evaluation.held_out if every.count(name) > 1]:
            raise ValueError(
                f"evaluation.rewards: {repeated[0]} is there {every.count(repeated[0])} times, with those trained on; "
                "name a reward once"
            )
        return self

    @field_validator("groups")
    @classmethod
    def _method_can_use_groups(cls, folder: str | None, info: ValidationInfo) -> str | None:
        method = info.data.get("method")
        if folder is not None and method is not None and not method.samples_only:
            raise ValueError(
                f"{method.name} trains on the steps of its own rollout, which stored groups do not have; "
                "leave this empty, or choose a method that trains on final samples, such as dgpo"
            )
        return folder

    def grid(self) -> Any:
        """Training sigmas, float64 [T+1]."""
        return flow.grid(self.sampling.steps, self.time_shift())

    def evaluation_grid(self) -> Any:
        return flow.grid(self.sampling.evaluation_steps, self.time_shift())

    def time_shift(self) -> float:
        """The shift of both grids."""
        return self.model.time_shift() if self.sampling.shift is None else self.sampling.shift


def explain(error: ValidationError) -> list[tuple[str, str]]:
    """(field path, what is wrong) of each mistake, in words for the person who made it."""
    tags = set().union(
        *(_tags(union) for union in (AnyMethod, AnyReward, AnyModel, AnyPrompts, Tuning, Pruning, Schedule))
    )
    found = []
    for item in error.errors(include_url=False):
        path = ".".join(_without(tags, item["loc"]))
        given = item["input"]
        message = item["msg"].removeprefix("Value error, ")
        shown = "" if isinstance(given, dict) else f" (got {given!r})"
        if item["type"] == "extra_forbidden":
            message, shown = "this name does not exist; check its spelling or remove it", f" (got {given!r})"
        found.append((path or "config", message + shown))
    return found


def _without(tags: set[str], place: tuple[int | str, ...]) -> list[str]:
    """The place of a mistake without tags. None follows another, so a field that is named like a tag stays."""
    kept: list[str] = []
    after_tag = False
    for part in place:
        after_tag = part in tags and not after_tag
        if not after_tag:
            kept.append(str(part))
    return kept


def _tags(union: Any) -> set[str]:
    """The names that tell the classes of a union apart; pydantic puts them into the path of a mistake."""
    members, info = get_args(union)
    return {member.model_fields[info.discriminator].default for member in get_args(members)}


def parse(data: Any) -> RunConfig:
    """A config from plain data. Raises ValueError that lists every mistake with its field."""
    if not isinstance(data, dict):
        raise ValueError(
            f"config: expected a mapping of settings, got {type(data).__name__}; see configs/ for examples"
        )
    try:
        return RunConfig.model_validate(data)
    except ValidationError as error:
        raise ValueError("\n".join(f"{path}: {what}" for path, what in explain(error))) from error


def override(data: dict[str, Any], assignment: str) -> None:
    """Apply `method.split_steps=[0,3]` to plain data in place; the value is YAML."""
    path, equals, text = assignment.partition("=")
    if not equals or not path:
        raise ValueError(f"--set: {assignment!r} is not NAME=VALUE, for example method.split_steps=[0,3,6,9]")
    *parents, leaf = path.split(".")
    at: Any = data
    for name in parents:
        at = at.setdefault(name, {}) if isinstance(at, dict) else at[int(name)]
    value = yaml.safe_load(text)
    if isinstance(at, list):
        at[int(leaf)] = value
    else:
        at[leaf] = value


def read(text: str, overrides: list[str] | None = None) -> RunConfig:
    """A config from YAML or JSON text. Raises ValueError that says where the text is wrong."""
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"config: not YAML: {error}") from error
    for assignment in overrides or []:
        if isinstance(data, dict):
            override(data, assignment)
    return parse(data)


def load(path: Path | str, overrides: list[str] | None = None) -> RunConfig:
    """A config from a file. Raises ValueError with the file's name."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"config: {path} does not exist; the presets are {', '.join(preset_names())}")
    try:
        return read(path.read_text(encoding="utf-8-sig"), overrides)
    except ValueError as error:
        raise ValueError(f"{path}:\n{error}") from error


def dump(config: RunConfig) -> str:
    """YAML that `read` turns into an equal config."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)


def preset_names() -> list[str]:
    return sorted(path.stem for path in CONFIGS.glob("*.yaml"))


def preset_path(name: str) -> Path:
    """The preset's file. Raises ValueError for a name that is not in configs/."""
    if name not in preset_names():
        raise ValueError(f"preset: {name!r} does not exist; choose one of {', '.join(preset_names())}")
    return CONFIGS / f"{name}.yaml"
