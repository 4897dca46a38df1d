"""Which weights a forward uses: the trained ones, those the run started from, or kept ones; and a moving average."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from backend.methods.settings import Settings
from backend.types import Weights

ADAPTER = "default"


class Lora(Settings):
    """Train low-rank adapters (PEFT) beside frozen weights."""

    kind: Literal["lora"] = "lora"
    rank: int = Field(32, ge=1, le=512, description="Rank of each adapter (Flow-GRPO, NFT 32)")
    alpha: int = Field(64, ge=1, description="Its scale is alpha / rank (Flow-GRPO, NFT 64)")
    init: Literal["gaussian", "kaiming"] = Field(
        "gaussian", description="Distribution of A; B starts at zero (Flow-GRPO gaussian)"
    )
    targets: str | None = Field(
        None, min_length=1, description="Ends of the names of layers that get adapters, by commas; empty = the family's"
    )


class Full(Settings):
    """Train all weights of the denoiser; a frozen copy stays as the reference."""

    kind: Literal["full"] = "full"


Tuning = Annotated[Lora | Full, Field(discriminator="kind")]


def named_trained(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name."""
    return {name: value for name, value in module.named_parameters() if value.requires_grad}


class Old:
    """A frozen earlier state of the trained parameters, which the module can compute with."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self.values = {name: value.detach().clone() for name, value in named_trained(module).items()}

    @torch.no_grad()
    def track(self, decay: float) -> None:
        """values <- decay values + (1 - decay) current."""
        for name, value in named_trained(self._module).items():
            self.values[name].lerp_(value, 1 - decay)

    def __call__(self, **inputs: Any) -> Any:
        return torch.func.functional_call(self._module, self.values, args=(), kwargs=inputs)


class LoraModule:
    """Adapter on = current, adapter off = reference, the adapter's kept state = old."""

    def __init__(self, module: Any, settings: Lora, targets: list[str], seed: int) -> None:
        from peft import LoraConfig

        module.requires_grad_(False)
        if settings.targets is not None:
            targets = [name.strip() for name in settings.targets.split(",")]
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        config = LoraConfig(
            r=settings.rank,
            lora_alpha=settings.alpha,
            init_lora_weights="gaussian" if settings.init == "gaussian" else True,
            target_modules=targets,
        )
        try:
            module.add_adapter(config, adapter_name=ADAPTER)
        except ValueError as error:
            raise ValueError(f"model.tuning.targets: no adapter fits {', '.join(targets)} ({error})") from error
        finally:
            torch.set_rng_state(state)
        for value in named_trained(module).values():
            value.data = value.data.float()  # adapters of a 16-bit base would lose small updates
        self.module = module
        self.old: Old | None = None

    def parameters(self) -> list[nn.Parameter]:
        return list(named_trained(self.module).values())

    @contextmanager
    def using(self, weights: Weights) -> Iterator[Any]:
        if weights != "reference":
            yield self.module if weights == "current" else kept(self.old)
            return
        self.module.disable_adapters()
        try:
            yield self.module
        finally:
            self.module.enable_adapters()


class FullModule:
    """The module itself = current, a frozen copy = reference, a kept state of its parameters = old."""

    def __init__(self, module: Any) -> None:
        module.requires_grad_(True)
        self.module = module
        self.old: Old | None = None
        self._reference = copy.deepcopy(module).requires_grad_(False)

    def parameters(self) -> list[nn.Parameter]:
        return list(named_trained(self.module).values())

    @contextmanager
    def using(self, weights: Weights) -> Iterator[Any]:
        yield {"current": self.module, "reference": self._reference}.get(weights) or kept(self.old)


def kept(old: Old | None) -> Old:
    """Raises ValueError when no old weights are kept."""
    if old is None:
        raise ValueError("weights: this policy keeps no 'old' weights; the method must say that it needs them")
    return old


def tune(module: Any, settings: Lora | Full, targets: list[str], seed: int) -> LoraModule | FullModule:
    """Make a denoiser trainable. targets: names of the linear layers that adapters go to."""
    return LoraModule(module, settings, targets, seed) if isinstance(settings, Lora) else FullModule(module)


class Ema:
    """Exponential moving average of trained parameters: shadow <- decay shadow + (1 - decay) value."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self._module = module
        self.shadow: dict[str, Tensor] = {name: value.detach().clone() for name, value in named_trained(module).items()}

    @torch.no_grad()
    def update(self) -> None:
        for name, value in named_trained(self._module).items():
            self.shadow[name].lerp_(value, 1 - self.decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The module computes with the average inside this context."""
        trained = named_trained(self._module)
        kept = {name: value.detach().clone() for name, value in trained.items()}
        with torch.no_grad():
            for name, value in trained.items():
                value.copy_(self.shadow[name])
        try:
            yield
        finally:
            with torch.no_grad():
                for name, value in trained.items():
                    value.copy_(kept[name])
