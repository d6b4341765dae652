"""Passes of an action, each beside a reference run just before, and how long its threads had to wait meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lib.timing.clock import Clock
from lib.timing.disturbance import waiting_share

Action = Callable[[], object]

# A short action is timed twice in a round, between the others, and its faster pass counts: a slow second then meets all
# actions alike. On a busy host the ratio of two decode steps (0.15 s) scatters by 18 % from round to round with one
# pass of each, 7 to 9 % with two, 6 % with four; so two are best for a given time, and four in a row (43 %) worst.
SAMPLE_S, MOST_PASSES = 0.3, 2
# A process alone on its cores waits 0-4 % of the time (the system at work), seldom 7 %; beside one busy loop 30-45 %.
WAITED_AT_MOST = 0.08
# Against the fastest of the session. Alone it varies by a tenth; starved of memory or of cores it takes three times as
# long. After a pause, with cold caches and a slow clock, so do its first runs: hence a few tries.
REFERENCE_AT_MOST, REFERENCE_GOOD, REFERENCE_TRIES = 1.5, 1.2, 6


@dataclass(frozen=True)
class Pass:
    """One run of an action.

    seconds: how long it took. waited: share of its threads' time that they spent queueing for a core. reference_s: of
    the reference, just before.
    """

    seconds: float
    waited: float
    reference_s: float

    def is_quiet(self, best_reference_s: float) -> bool:
        """Whether the machine was ours meanwhile. Its own time has no say, unless it is no time at all."""
        steady = self.reference_s <= REFERENCE_AT_MOST * best_reference_s
        return steady and self.waited <= WAITED_AT_MOST and math.isfinite(self.seconds)


@dataclass(frozen=True)
class Sample:
    """The passes of one action in one round."""

    passes: Sequence[Pass]

    def seconds(self, best_reference_s: float) -> float | None:
        """The fastest quiet pass: what the action costs when nothing comes between. None without a quiet one."""
        return min((p.seconds for p in self.passes if p.is_quiet(best_reference_s)), default=None)


@dataclass(frozen=True)
class Sampler:
    """Runs actions. threads: how many they use. now: the host's clock, in which waiting is counted."""

    clock: Clock
    reference: Action
    threads: int
    waited: Callable[[], float | None]
    now: Callable[[], float]

    def take(self, action: Action, reference_s: float) -> Pass:
        """Run the action once, the reference having taken so long just before."""
        before, started = self.waited(), self.now()
        seconds = self.clock.seconds(action)
        return Pass(seconds, self._share_since(before, started), reference_s)

    def reference_seconds(self, best_s: float) -> float:
        """The reference's time, the best of a few tries while it is slow: after a pause the first ones are."""
        tried: list[float] = []
        while len(tried) < REFERENCE_TRIES:
            tried.append(self.clock.seconds(self.reference))
            if tried[-1] <= REFERENCE_GOOD * best_s:
                break
        return min((s for s in tried if math.isfinite(s)), default=math.nan)

    def waiting_share(self, runs: int) -> float:
        """Share of the time waited for a core while the reference runs so many times."""
        before, started = self.waited(), self.now()
        for _ in range(runs):
            self.reference()
        return self._share_since(before, started)

    def _share_since(self, before: float | None, started: float) -> float:
        return waiting_share(before, self.waited(), (self.now() - started) * self.threads)


def passes_of(seconds: float) -> int:
    """How many passes an action gets in a round, from the time of one that warmed up: by number, never by time."""
    return 1 if not seconds > 0 else max(1, min(MOST_PASSES, math.ceil(SAMPLE_S / seconds)))
