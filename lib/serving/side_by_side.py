"""Both policies on the same requests and kernels, a step of each in turn, so that a slow second meets both.

What the steps took then feeds the simulator (lib/scheduling), which should find the ratio that was measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from scipy.stats import t
from transformers import PreTrainedModel

from lib.intervals import Estimate
from lib.scheduling.cost import StepCost, measured
from lib.scheduling.policies import CONTINUOUS, STATIC
from lib.scheduling.requests import Request
from lib.scheduling.simulate import simulate
from lib.serving.engine import Engine, Settings, Step
from lib.serving.requests import GenerationRequest
from lib.serving.scheduler import Policy
from lib.timing.disturbance import waited_seconds, waiting_share
from lib.timing.intervals import CONFIDENCE, UNKNOWN
from lib.timing.sample import WAITED_AT_MOST


@dataclass(frozen=True)
class SideBySide:
    """Engines that have served everything, and their steps. waited: share of the time that threads were queueing.

    Each engine's clock has run during its own steps only. waited is NaN where it cannot be known.
    """

    engines: Mapping[Policy, Engine]
    steps: Mapping[Policy, Sequence[Step]]
    waited: float

    @property
    def time_ratio(self) -> Estimate:
        """Seconds under static batching over those under continuous; anything if the machine was busy."""
        if not self.waited <= WAITED_AT_MOST:  # NaN is not known to be quiet
            return UNKNOWN
        static, continuous = ([s.seconds for s in self.steps[p]] for p in (Policy.STATIC, Policy.CONTINUOUS))
        return total_ratio(static, continuous)

    @property
    def step_ratio(self) -> float:
        """How many steps static batching took for one of continuous batching: no clock in it."""
        return len(self.steps[Policy.STATIC]) / len(self.steps[Policy.CONTINUOUS])


class TurnClock:
    """Seconds of somebody's own turns, `with clock:` each; it stands still while it is another one's."""

    def __init__(self) -> None:
        self._before = 0.0
        self._since: float | None = None

    def __enter__(self) -> None:
        self._since = perf_counter()

    def __exit__(self, *error: object) -> None:
        self._before, self._since = self(), None

    def __call__(self) -> float:
        """Seconds so far."""
        return self._before if self._since is None else self._before + perf_counter() - self._since


def run_in_turn(
    model: PreTrainedModel, requests: Sequence[GenerationRequest], settings: Settings, threads: int
) -> SideBySide:
    """Serve the requests once under each policy, all of them there from the start."""
    clocks = {policy: TurnClock() for policy in Policy}
    engines = {policy: Engine(model, replace(settings, policy=policy), clocks[policy]) for policy in Policy}
    steps: dict[Policy, list[Step]] = {policy: [] for policy in Policy}
    for engine in engines.values():
        for request in requests:
            engine.submit(request)
    before, live = waited_seconds(), list(Policy)
    while live:
        for policy in tuple(live):
            with clocks[policy]:
                done = engines[policy].step()
            if done is None:
                live.remove(policy)
            else:
                steps[policy].append(done)
    seconds = sum(step.seconds for column in steps.values() for step in column)
    return SideBySide(engines, steps, waiting_share(before, waited_seconds(), seconds * threads))


def total_ratio(above: Sequence[float], below: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Sum over sum of two series of step times, with Student's t on the scatter of each: known counts, noisy steps.

    Steps that differ by nature (few slots at the end) count as noise, so the interval is rather too wide.
    """
    ratio = sum(above) / sum(below)
    relative = [statistics.stdev(s) / statistics.fmean(s) / math.sqrt(len(s)) for s in (above, below)]
    reach = float(t.ppf((1 + confidence) / 2, min(len(above), len(below)) - 1)) * math.hypot(*relative)
    return Estimate(ratio, ratio * math.exp(-reach), ratio * math.exp(reach))


def step_cost(run: SideBySide, slots: int) -> StepCost:
    """Seconds by computed rows, padding included, from steps that only decode; and per prompt token beyond that.

    A number of rows that never occurred costs what the next larger one does. Raises ValueError if no step only decodes.
    """
    steps = [step for column in run.steps.values() for step in column]
    rows: dict[int, list[float]] = {}
    for step in steps:
        if not step.prefill:
            rows.setdefault(step.decode + step.padding, []).append(step.seconds)
    known = {count: statistics.median(taken) for count, taken in rows.items()}
    if not known:
        raise ValueError(f"none of {len(steps)} steps only decodes")
    most = max(known)
    seconds = [known[min((k for k in known if k >= count), default=most)] for count in range(1, slots + 1)]
    prompts, of_rows = [step for step in steps if step.prefill], (0.0, *seconds)  # a chunk alone decodes no row
    beyond = sum(step.seconds - of_rows[min(slots, step.new + step.padding)] for step in prompts)
    return replace(measured(seconds), prompt_token_s=max(0.0, beyond / sum(step.prefill for step in prompts)))


def simulated_ratio(requests: Sequence[GenerationRequest], cost: StepCost, slots: int) -> float:
    """Static over continuous makespan of these requests, all there at once, by the simulator."""
    work = [Request(0.0, len(request.prompt), request.max_new_tokens) for request in requests]
    static, continuous = (simulate(work, policy, cost, slots) for policy in (STATIC, CONTINUOUS))
    return float(static.times.makespan_s / continuous.times.makespan_s)


def occupancy(steps: Sequence[Step]) -> list[tuple[float, int]]:
    """(seconds since the start, slots that computed a useful token) as a staircase, for a plot."""
    now, stairs = 0.0, []
    for step in steps:
        stairs += [(now, sum(step.working)), (now + step.seconds, sum(step.working))]
        now += step.seconds
    return stairs


def waits(engine: Engine) -> list[float]:
    """Seconds on the engine's clock from the first arrival to each answer as a whole, in order: a latency's axis."""
    records = engine.records.values()
    start = min(record.times.arrival for record in records)
    return sorted(r.times.delivered - start for r in records if r.times.delivered is not None)
