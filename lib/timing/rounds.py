"""Actions timed in turn, round after round, in one process, until an interval decides or the time is up.

In every round each action is timed once, in an order drawn anew, so that drift and a slow minute meet all of them
alike; a ratio is taken within a round. Samples in whose time the machine was not this process's own
(lib/timing/disturbance.py) are dropped, by a rule that does not look at the sample itself. Where too few are left the
intervals run from zero to infinity, and nothing is decided.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from lib.intervals import Estimate
from lib.timing.clock import Clock
from lib.timing.disturbance import waited_seconds
from lib.timing.intervals import CONFIDENCE, FEWEST, middle_interval

Action = Callable[[], object]

# The first decode step after a pass of a thousand tokens takes up to half as long again: memory was given back.
SHORT_S = 0.5  # so shorter actions are run once before they are timed; longer ones do not notice
SAMPLE_S, MOST_PASSES = 0.4, 4  # passes of a short action that make one sample: by their number, never by their time
SLOW_BUDGETS = 6  # at most, for rounds that are quiet and slow
GROWTH = 1.45  # rounds at each further look, relative to the last: few looks, each with a real gain
# A process alone on its cores waits 0-4 % of the time (the system at work), seldom 7 %; beside one busy loop 30-45 %.
WAITED_AT_MOST = 0.08
PROBES, PATIENCE_S = 8, 5.0  # references to see whether it is alone: some 0.2 s; how long to wait for that
# Against the fastest of the session. Alone it varies by a tenth; starved of memory or of cores it takes three times as
# long.
REFERENCE_AT_MOST = 1.5


@dataclass(frozen=True)
class Sample:
    """One action, once.

    seconds: of the action. waited: share of its threads' time spent queueing for a core. reference_s: just before it.
    """

    seconds: float
    waited: float
    reference_s: float


@dataclass
class Rounds:
    """Times of named actions. Nothing runs before `until`; rounds already made are kept and extended.

    threads: how many the actions use. on_round: called before each round, for progress. now: the host's clock, for the
    budget and for the share of waiting. Raises ValueError without actions.
    """

    actions: Mapping[str, Action]
    clock: Clock
    reference: Action
    threads: int
    warm_up: int = 1
    seed: int = 0
    confidence: float = CONFIDENCE
    on_round: Callable[[int], object] = lambda _: None
    waited: Callable[[], float | None] = waited_seconds
    now: Callable[[], float] = time.perf_counter
    best_known_s: Callable[[], float] = lambda: math.inf
    settled: Collection[str] = ()
    probes: int = PROBES
    patience_s: float = PATIENCE_S
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    spent_s: float = 0.0
    _short: set[str] = field(default_factory=set)
    _short_reference: bool = False
    _passes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.actions:
            raise ValueError("nothing to time: no actions")

    def until(self, decided: Callable[[], bool], budget_s: float) -> Rounds:
        """Run rounds until `decided()` or until all rounds so far have spent the budget, which ends no round halfway.

        With too few quiet rounds for any interval it goes on for as long again, or, where the rounds are quiet and only
        slow, until there are enough: something that has become slow must be seen, not given up.
        Beside a process that does not let go within `patience_s`, nothing is run at all.
        """
        if not self._comes_to_rest():
            return self
        self._warm_up()
        look_at = max(FEWEST, len(self))
        while True:
            while len(self) < look_at:
                if len(self) and self.spent_s >= budget_s * self._patience():
                    return self
                self._round()
            if decided():
                return self
            look_at = math.ceil(look_at * GROWTH)

    def __len__(self) -> int:
        """Rounds so far."""
        return min((len(column) for column in self.samples.values()), default=0)

    def quiet(self, *names: str) -> list[int]:
        """The rounds in which the machine was ours during all of these actions."""
        best = min(self.best_reference_s, self.best_known_s())
        return [i for i in range(len(self)) if all(_is_quiet(self.samples[name][i], best) for name in names)]

    @property
    def best_reference_s(self) -> float:
        """The reference's fastest time so far, infinite before the first."""
        references = [s.reference_s for column in self.samples.values() for s in column]
        return min((s for s in references if math.isfinite(s)), default=math.inf)

    def seconds(self, name: str) -> Estimate:
        """Middle of an action's times over its quiet rounds."""
        return self._interval([self.samples[name][i].seconds for i in self.quiet(name)])

    def rate(self, name: str, amount: float = 1.0) -> Estimate:
        """Amount per second, of whatever an action does so much of."""
        rate = self._interval([1 / self.samples[name][i].seconds for i in self.quiet(name)])
        return rate * amount

    def ratio(self, name: str, over: str) -> Estimate:
        """Middle over quiet rounds of how many times as long an action took as another in the same round."""
        pairs = [(self.samples[name][i].seconds, self.samples[over][i].seconds) for i in self.quiet(name, over)]
        return self._interval([a / b for a, b in pairs])

    def facts(self) -> dict[str, float | int | str]:
        """For the protocol of a claim."""
        return {
            "rounds": len(self), "quiet_rounds": len(self.quiet(*self.actions)), "threads": self.threads,
            "confidence": self.confidence, "seed": self.seed,
            "interval": "order statistics of the median; below 9 rounds t on logarithms",
        }  # fmt: skip

    def _interval(self, values: list[float]) -> Estimate:
        return middle_interval(values, self.confidence) if values else Estimate(1.0, 0.0, math.inf)

    def _patience(self) -> int:
        """How many budgets may be spent, as things are."""
        quiet = len(self.quiet(*self.actions))
        if quiet >= FEWEST:
            return 1
        return SLOW_BUDGETS if quiet == len(self) else 2

    def _comes_to_rest(self) -> bool:
        """Whether the machine is ours for the length of a few references, at once or within the patience."""
        started = self.now()
        while self.probes:
            before, begun = self.waited(), self.now()
            for _ in range(self.probes):
                self.reference()
            share = _share(before, self.waited(), (self.now() - begun) * self.threads)
            if share <= WAITED_AT_MOST:
                return True
            if self.now() - started >= self.patience_s:
                return False
        return True

    def _warm_up(self) -> None:
        if not self.samples:
            warmed = [(name, self._warmed(action)) for name, action in self.actions.items()]
            self._short = {name for name, seconds in warmed if seconds < SHORT_S} | set(self.settled)
            self._passes = {name: _passes(seconds) for name, seconds in warmed}
            self._short_reference = self._warmed(self.reference, at_least=1) < SHORT_S
            self.samples.update({name: [] for name in self.actions})

    def _warmed(self, action: Action, at_least: int = 0) -> float:
        """Seconds of the last pass that warms an action up; infinite without any, so that it counts as long."""
        passes = max(self.warm_up, at_least)
        return [math.inf, *(self.clock.seconds(action) for _ in range(passes))][-1]

    def _round(self) -> None:
        self.on_round(len(self))
        started = self.now()
        order = list(self.actions)
        random.Random(self.seed + len(self)).shuffle(order)  # noqa: S311 (an order, not a secret)
        taken = {name: self._sample(name) for name in order}
        for name, sample in taken.items():  # all or none: an action that raises must not shift the later pairs
            self.samples[name].append(sample)
        self.spent_s += self.now() - started

    def _sample(self, name: str) -> Sample:
        """A short action is run once, then timed over a few passes: its neighbour's leavings are not its own."""
        action = self.actions[name]
        if self._short_reference:
            self.reference()
        reference_s = self.clock.seconds(self.reference)
        if name in self._short:
            action()
        before = self.waited()
        started = self.now()
        passes = self._passes[name]
        seconds = self.clock.seconds(lambda: [action() for _ in range(passes)]) / passes
        after, wall = self.waited(), self.now() - started
        return Sample(seconds, _share(before, after, wall * self.threads), reference_s)


def _passes(seconds: float) -> int:
    """How many passes make a sample, from the time of one that warmed up."""
    return max(1, min(MOST_PASSES, math.ceil(SAMPLE_S / seconds)))


def _share(before: float | None, after: float | None, thread_seconds: float) -> float:
    """Waited between two readings; 0 where nobody counts, NaN (never quiet) where a thread ended in between."""
    if before is None and after is None:
        return 0.0
    if before is None or after is None or after < before or thread_seconds <= 0:
        return math.nan
    return (after - before) / thread_seconds


def _is_quiet(sample: Sample, best_reference_s: float) -> bool:
    """Whether a sample counts; one whose clock made no sense does not."""
    steady = sample.reference_s <= REFERENCE_AT_MOST * best_reference_s
    return steady and sample.waited <= WAITED_AT_MOST and math.isfinite(sample.seconds)
