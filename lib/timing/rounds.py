"""Actions timed in turn, round after round, in one process, until an interval decides or the time is up.

A round is a few turns through the actions, each time in an order drawn anew, long actions in the first turn only: drift
and a slow second meet all of them alike. An action's fastest pass of the round counts, and a ratio is taken within a
round. Passes in whose time the machine was not this process's own (lib/timing/sample.py) are dropped, by a rule that
does not look at their own time. Where too few rounds are left the intervals run from zero to infinity: nothing is
decided.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from lib.intervals import Estimate
from lib.timing.clock import Clock
from lib.timing.disturbance import waited_seconds
from lib.timing.intervals import CONFIDENCE, FEWEST, UNKNOWN, middle_interval, ratio_interval
from lib.timing.sample import WAITED_AT_MOST, Action, Pass, Sample, Sampler, passes_of

SLOW_BUDGETS = 6  # at most, for rounds that are quiet and slow
GROWTH = 1.45  # rounds at each further look, relative to the last: few looks, each with a real gain
PROBES, PATIENCE_S = 8, 5.0  # references to see whether it is alone: some 0.2 s; how long to wait for that


@dataclass
class Rounds:
    """Times of named actions. Nothing runs before `until`; rounds already made are kept and extended.

    threads: how many the actions use. on_round: called before each round, for progress. now: the host's clock, for the
    budget and for the share of waiting. passes: of each action in a round; those not named get as many as their time
    suggests. long: actions that take seconds, so that what only a first pass does is little of it: not warmed up, one
    pass in a round. fewest: quiet rounds without which nothing can be decided. Raises ValueError without actions
    or for counts below one.
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
    passes: Mapping[str, int] = field(default_factory=dict)
    long: Collection[str] = ()
    fewest: int = FEWEST
    probes: int = PROBES
    patience_s: float = PATIENCE_S
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    spent_s: float = 0.0
    _passes: dict[str, int] = field(default_factory=dict)
    _warm_reference_s: float = math.inf

    def __post_init__(self) -> None:
        if not self.actions:
            raise ValueError("nothing to time: no actions")
        unknown = {*self.passes, *self.long} - set(self.actions)
        if unknown or min([self.threads, self.fewest, *self.passes.values()]) < 1:
            numbers = f"threads {self.threads}, fewest {self.fewest}, passes {dict(self.passes)}: each at least 1"
            raise ValueError(f"not timed at all: {sorted(unknown)}" if unknown else numbers)
        self._sampler = Sampler(self.clock, self.reference, self.threads, self.waited, self.now)

    def until(self, decided: Callable[[], bool], budget_s: float) -> Rounds:
        """Run rounds until `decided()` or until all rounds so far have spent the budget, which ends no round halfway.

        With too few quiet rounds for any interval it goes on for as long again, or, where most rounds are quiet and
        only slow, until there are enough: something that has become slow must be seen, not given up.
        Beside a process that does not let go within `patience_s`, nothing is run at all.
        """
        if not self._comes_to_rest():
            return self
        self._warm_up()
        look_at = max(self.fewest, len(self))
        while True:
            while len(self) < look_at:
                if len(self) and not self.spent_s < budget_s * self._patience():  # a budget of NaN is spent
                    return self
                self._round()
            if decided():
                return self
            look_at = math.ceil(look_at * GROWTH)

    def __len__(self) -> int:
        """Rounds so far."""
        return min((len(column) for column in self.samples.values()), default=0)

    def quiet(self, *names: str) -> list[int]:
        """The rounds in which the machine was ours during at least one pass of each of these actions."""
        return [i for i in range(len(self)) if all(self.taken(name, i) is not None for name in names)]

    def taken(self, name: str, number: int) -> float | None:
        """Seconds of an action in a round, None where no pass of it was quiet."""
        return self.samples[name][number].seconds(self._best_s())

    @property
    def best_reference_s(self) -> float:
        """The reference's fastest time so far, infinite before the first."""
        references = [p.reference_s for column in self.samples.values() for s in column for p in s.passes]
        return min((s for s in references if math.isfinite(s)), default=self._warm_reference_s)

    def quiet_seconds(self, name: str, numbers: Sequence[int] | None = None) -> list[float]:
        """Seconds of an action in its quiet rounds, or in those of these rounds in which it was."""
        numbers = range(len(self)) if numbers is None else numbers
        return [seconds for i in numbers if (seconds := self.taken(name, i)) is not None]

    def seconds(self, name: str) -> Estimate:
        """Middle of an action's times over its quiet rounds."""
        return self._interval(self.quiet_seconds(name))

    def rate(self, name: str, amount: float = 1.0) -> Estimate:
        """Amount per second, of whatever an action does so much of."""
        rate = self._interval([1 / seconds for seconds in self.quiet_seconds(name)])
        return rate * amount

    def ratio(self, name: str, over: str) -> Estimate:
        """Middle over quiet rounds of how many times as long an action took as another in the same round."""
        both = self.quiet(name, over)
        pairs = zip(self.quiet_seconds(name, both), self.quiet_seconds(over, both), strict=True)
        ratios = [a / b for a, b in pairs]
        return ratio_interval(ratios, self.confidence) if ratios else UNKNOWN

    def facts(self) -> dict[str, float | int | str]:
        """For the protocol of a claim."""
        return {
            "rounds": len(self), "quiet_rounds": len(self.quiet(*self.actions)), "threads": self.threads,
            "confidence": self.confidence, "seed": self.seed, "passes_per_round": max(self._passes.values(), default=0),
            "interval": "of ratios signed ranks, of times order statistics; below 9 rounds t; on logarithms",
        }  # fmt: skip

    def _interval(self, values: list[float]) -> Estimate:
        return middle_interval(values, self.confidence) if values else UNKNOWN

    def _patience(self) -> int:
        """How many budgets may be spent, as things are."""
        quiet = len(self.quiet(*self.actions))
        if quiet >= self.fewest:
            return 1
        return SLOW_BUDGETS if 2 * quiet >= len(self) else 2

    def _best_s(self) -> float:
        return min(self.best_reference_s, self.best_known_s())

    def _comes_to_rest(self) -> bool:
        """Whether the machine is ours for the length of a few references, at once or within the patience."""
        started = self.now()
        while self.probes:
            if self._sampler.waiting_share(self.probes) <= WAITED_AT_MOST:
                return True
            if self.now() - started >= self.patience_s:
                return False
        return True

    def _warm_up(self) -> None:
        if self.samples:
            return
        for name, action in self.actions.items():
            seconds = self._warmed(action, 0 if name in self.long else self.warm_up)
            self._passes[name] = self.passes.get(name) or passes_of(seconds)
        self._warm_reference_s = self._warmed(self.reference, max(self.warm_up, 1))
        self.samples.update({name: [] for name in self.actions})

    def _warmed(self, action: Action, passes: int) -> float:
        """Seconds of the last pass that warms an action up; infinite without any, so that it counts as long."""
        return [math.inf, *(self.clock.seconds(action) for _ in range(passes))][-1]

    def _round(self) -> None:
        self.on_round(len(self))
        started = self.now()
        random_order = random.Random(self.seed + len(self))  # noqa: S311 (an order, not a secret)
        passes: dict[str, list[Pass]] = {name: [] for name in self.actions}
        for turn in range(max(self._passes.values())):
            order = [name for name in self.actions if turn < self._passes[name]]
            random_order.shuffle(order)
            for name in order:
                reference_s = self._sampler.reference_seconds(self._best_s())
                passes[name].append(self._sampler.take(self.actions[name], reference_s))
        for name, taken in passes.items():  # all or none: an action that raises must not shift the later pairs
            self.samples[name].append(Sample(tuple(taken)))
        self.spent_s += max(0.0, self.now() - started)  # a clock set back must not extend the budget
