"""Where the time of a run goes, and when it is used up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter


@dataclass
class Clock:
    """Seconds spent in each phase of one step, as `timer` counts them."""

    timer: Callable[[], float] = perf_counter
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        started = self.timer()
        try:
            yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + self.timer() - started


@dataclass(frozen=True)
class Budget:
    """Seconds of training steps after which a run is done, however many steps are left.

    timer  what counts them, and the seconds of the charts: the clock on the wall, or the processor's for all threads
    """

    seconds: float = math.inf
    timer: Callable[[], float] = perf_counter


UNLIMITED = Budget()
