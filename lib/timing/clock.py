"""The one place where time is read: a wall clock that never runs backwards, or a GPU's own events.

A sample that cannot be a duration (a clock that was set back, a suspended machine's zero) is NaN: it is never quiet.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

MS_PER_S = 1000


class Clock(Protocol):
    """Anything that can say how long an action took."""

    def seconds(self, action: Callable[[], object]) -> float:
        """Run the action once; seconds until all of its work was done, NaN where the clock made no sense."""


class WallClock:
    """The monotonic clock of the host."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now

    def seconds(self, action: Callable[[], object]) -> float:
        """Wall time of the action; its operations are done when it returns."""
        started = self._now()
        action()
        return _duration(self._now() - started)


class CudaClock:
    """Events on the GPU's own timeline, with everything before them finished first.

    cuda: the module torch.cuda, or something with its Event and synchronize.
    """

    def __init__(self, device: torch.device, cuda: Any = torch.cuda) -> None:
        self._device, self._cuda = device, cuda

    def seconds(self, action: Callable[[], object]) -> float:
        """Time between two events around the action, launches included."""
        started, ended = (self._cuda.Event(enable_timing=True) for _ in range(2))
        self._cuda.synchronize(self._device)
        started.record()
        action()
        ended.record()
        self._cuda.synchronize(self._device)
        return _duration(started.elapsed_time(ended) / MS_PER_S)


def clock_for(device: torch.device) -> Clock:
    """Events on a GPU, the wall clock elsewhere."""
    return CudaClock(device) if device.type == "cuda" else WallClock()


def _duration(seconds: float) -> float:
    return seconds if seconds > 0 else math.nan
