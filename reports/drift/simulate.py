"""What the rule for clocks costs and finds: thousands of made-up series of nights, put through timed.py itself.

A series is K repeats of the baseline and then nights, each with `reruns` re-runs held ready. In noises: a run is its
night's part (variance `between`) and its own part (the rest). Single runs are hit by spikes, whole nights with their
re-runs by a slow host, of which the reference of the machine's speed recognises a share (`seen`). The ten repeats of
2026-11-30 (70 timed figures that bear a verdict) are what the noise is modelled on: Gaussian in logarithms (kurtosis
2.42, Gaussian samples of ten have 2.45), no autocorrelation (-0.05; independent ones have -0.10 at ten).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from reports.drift import timed
from reports.drift.timed import Bools, Floats

MONTH = 30  # nights
SEED = 20261130
SPIKE, SLOW = 6.0, 4.0  # noises that a hit run and a slow night are off
CONFIDENCE = 0.95  # one-sided, of every rate


@dataclass(frozen=True)
class World:
    """How nights are: see the module. `steady` nights come before the month that is looked at."""

    repeats: int = 20
    between: float = 0.5
    tails: str = "gauss"
    spikes: float = 0.0
    slow: float = 0.0
    seen: float = 1.0
    memory: float = 0.0
    steady: int = 0
    step: float = 0.0
    figures: int = 1
    reruns: int = 5


@dataclass(frozen=True)
class Series:
    """Series × K, series × nights, series × nights × re-runs; was the machine itself; the night of the step."""

    repeats: Floats
    nights: Floats
    again: Floats
    comparable: Bools
    start: Floats


QUIET: Mapping[str, World] = {
    "jitter, Gaussian": World(),
    "jitter, lognormal delays": World(tails="lognormal"),
    "jitter, heavy tails (t, 4)": World(tails="t4"),
    "5 % of runs hit by a spike": World(spikes=0.05),
    "5 % slow nights, 8 of 10 recognised": World(slow=0.05, seen=0.8),
    "10 % slow nights, 9 of 10 recognised": World(slow=0.1, seen=0.9),
    "autocorrelated nights (0.2)": World(memory=0.2),
    "the same, after 20 quiet nights": World(memory=0.2, steady=20),
    "five figures that share half": World(figures=5),
}
BROKEN: Mapping[str, World] = {
    "all noise between nights": World(between=1.0),
    "all noise between nights, autocorrelated (0.2)": World(between=1.0, memory=0.2),
    "10 % slow nights, none recognised": World(slow=0.1, seen=0.0),
}

Rule = Callable[[Series, Floats], Bools]


def noise(rng: np.random.Generator, tails: str, shape: tuple[int, ...]) -> Floats:
    """Draws of variance one. "lognormal": a ratio of two times, each delayed by a lognormal wait, so symmetric."""
    if tails == "lognormal":
        spread = 0.7
        one, other = np.exp(spread * rng.standard_normal((2, *shape)))
        variance = (np.exp(spread**2) - 1) * np.exp(spread**2)
        return np.asarray((one - other) / np.sqrt(2 * variance))
    if tails == "t4":
        return np.asarray(rng.standard_t(4, shape) / np.sqrt(2))
    return rng.standard_normal(shape)


def draw(world: World, num: int, rng: np.random.Generator) -> Series:
    """Series of this world. Figures of one claim are consecutive series with half of their noise in common."""
    claims, total = num // world.figures, world.steady + MONTH
    series = claims * world.figures

    def part(*shape: int) -> Floats:
        """Noise of which the figures of a claim share half."""
        own = noise(rng, world.tails, (series, *shape))
        if world.figures == 1:
            return own
        common = np.repeat(noise(rng, world.tails, (claims, *shape)), world.figures, axis=0)
        return np.asarray(np.sqrt(0.5) * (own + common))

    def runs(*shape: int) -> Floats:
        """A run's own part, spikes among it."""
        own = part(*shape)
        return np.asarray(own * np.sqrt(1 - world.between) + SPIKE * (rng.random(own.shape) < world.spikes))

    def nights(length: int) -> Floats:
        """The night's part."""
        fresh = part(length)
        for night in range(1, length):
            fresh[:, night] = world.memory * fresh[:, night - 1] + np.sqrt(1 - world.memory**2) * fresh[:, night]
        return np.asarray(fresh * np.sqrt(world.between))

    slow = rng.random((series, total)) < world.slow
    start = rng.integers(world.steady + timed.WINDOW, total - timed.WINDOW + 1, series).astype(float)
    level = nights(total) + SLOW * slow + world.step * (np.arange(total) >= start[:, None])
    base = np.sqrt(world.between) * part(world.repeats) + runs(world.repeats)
    again = level[..., None] + runs(total, world.reruns)
    return Series(base, level + runs(total), again, ~(slow & (rng.random((series, total)) < world.seen)), start)


def by_the_rule(series: Series, figures: Floats) -> Bools:
    """Flags of the rule, series × nights, a night at a time as compare does it."""
    kept = np.full((len(series.nights), timed.MOST_OLDER + timed.WINDOW - 1), np.nan)  # readings, the latest last
    flags = np.zeros(series.nights.shape, dtype=bool)
    for night in range(series.nights.shape[1]):
        older, before = kept[:, : timed.MOST_OLDER], kept[:, timed.MOST_OLDER :]
        ref = timed.reference(series.repeats, older)
        tonight, again = series.nights[:, night], series.again[:, night]
        odd = timed.wants_again(before, tonight, ref)
        flags[:, night] = series.comparable[:, night] & odd & timed.flagged(before, tonight, again, ref, figures)
        value = np.where(odd, timed.reading(tonight, again), tonight)
        shifted = np.concatenate([kept[:, 1:], value[:, None]], axis=1)
        kept = np.where(series.comparable[:, [night]], shifted, kept)
    return flags


def two_sigma(series: Series, figures: Floats) -> Bools:
    """The rule that one would write first, and wrong: one night outside two standard deviations of the repeats."""
    ref = timed.reference(series.repeats, np.full((len(series.nights), 0), np.nan))
    return np.asarray(np.abs(ref.off(series.nights)) > 2.0)


def false_flags(world: World, num: int, rule: Rule = by_the_rule, seed: int = SEED) -> tuple[int, int]:
    """Claims with a flag in the month although nothing moved, of how many."""
    series = draw(world, num, np.random.default_rng(seed))
    month = np.asarray(rule(series, _figures(series, world))[:, world.steady :].any(axis=1))
    claims = np.asarray(month.reshape(-1, world.figures).any(axis=1))
    return int(claims.sum()), len(claims)


def detections(world: World, num: int, rule: Rule = by_the_rule, seed: int = SEED) -> tuple[int, int]:
    """Steps that are flagged within five nights, of how many."""
    series = draw(world, num, np.random.default_rng(seed))
    since = np.arange(series.nights.shape[1]) - series.start[:, None]
    found = np.asarray((rule(series, _figures(series, world)) & (since >= 0) & (since < timed.WINDOW)).any(axis=1))
    return int(found.sum()), len(found)


def _figures(series: Series, world: World) -> Floats:
    """Of each series' claim, how many independent figures its repeats show: as clocks.py counts them."""
    if world.figures == 1:
        return np.ones(len(series.repeats))
    claims = series.repeats.reshape(-1, world.figures, world.repeats)
    return np.repeat([timed.independent(claim) for claim in claims], world.figures)


def at_most(hits: int, num: int) -> float:
    """Upper confidence bound of a rate (Clopper–Pearson)."""
    return float(stats.beta.ppf(CONFIDENCE, hits + 1, num - hits)) if hits < num else 1.0


def at_least(hits: int, num: int) -> float:
    """Lower confidence bound of a rate."""
    return float(stats.beta.ppf(1 - CONFIDENCE, hits, num - hits + 1)) if hits else 0.0


STEPS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
SIZES = (5, 8, 10, 20)


def markdown_table(num: int = 2500) -> str:
    """The table of the README: false flags by kind of night, then what is found by step and number of repeats."""
    return "\n".join([*_false_rows(num), "", *_found_rows(num)])


def _false_rows(num: int) -> Iterator[str]:
    yield "| nothing moved; 20 repeats | claims with a flag in 30 nights |"
    yield "|---|---|"
    for name, world in {**QUIET, **BROKEN}.items():
        hits, claims = false_flags(world, num)
        yield f"| {'*' * (name in BROKEN)}{name}{'*' * (name in BROKEN)} | {100 * hits / claims:.2f} % |"


def _found_rows(num: int) -> Iterator[str]:
    yield "| step found within five nights | " + " | ".join(f"{step:g} σ" for step in STEPS) + " |"
    yield "|---|" + "---|" * len(STEPS)
    rows = [(f"{size} repeats", World(repeats=size)) for size in SIZES]
    rows.append(("20 repeats, after 20 quiet nights", World(steady=20)))
    rows.append(("20 repeats, all noise between nights", World(between=1.0)))
    rows.append(("20 repeats, one of five figures that share half", World(figures=5)))
    for name, world in rows:
        rates = [hits / found for hits, found in (detections(replace(world, step=s), num) for s in STEPS)]
        yield f"| {name} | " + " | ".join(f"{rate:.2f}" for rate in rates) + " |"
