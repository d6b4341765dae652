"""When has something that a clock measured moved? The rule, on many series at once so that simulate.py can try it.

One night proves nothing: a slow host is as slow in its re-runs. So a night that looks odd is read again (`wants_again`)
and its reading becomes the median; a flag takes the mean of the last five nights, each clipped so that no single one
decides, outside of what the repeats of the baseline allow, and re-runs of tonight that say the same.

The noise is that of the baseline's repeats and, as nights go by, of the nights since about the baseline's centre: a
handful of repeats knows its own spread badly, and a quantile of Student's t pays for that. Every constant here was
chosen by `simulate.py`, whose table is in the README. Units: logarithms of a figure (a figure that can be zero or
negative as it is); "noise" is one standard deviation of a single run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

WINDOW = 5  # nights; the demand is to see a step within five
MOST_OLDER = 20  # nights before the window that the noise is learned from
FEWEST_REPEATS = 5  # below, the spread says nothing: its 99 % interval at four repeats spans a factor of fourteen
CLIP = 3.0  # noises that one night may count for at most: one missed slow night then moves the mean by 0.6
ODD, ODD_PAIR, ODD_WINDOW = 1.5, 1.0, 2.5  # tonight, tonight and the night before, the window: read again beyond
CONFIRMS = 1.0  # noises by which the re-runs' median must be off, to the same side
AT_ONCE = 10.0  # noises in one night and its re-runs that need no further night: no slow host did that to a ratio
FALSE_PER_MONTH = 0.01  # flags of a claim in which nothing moved
LOOKS = 16  # independent ones that 30 nights of overlapping windows amount to: found by simulation, between 6 and 30
RESOLUTION = 1e-6  # of a figure: repeats are stored to six digits, and no noise is smaller
CORRECTION = 1 / WINDOW  # variance of the window's mean, in noises squared


@dataclass(frozen=True)
class Reference:
    """What a series is held against, one entry per series: centre, noise, its degrees of freedom, how many repeats."""

    centre: Floats
    noise: Floats
    freedom: Floats
    repeats: int

    def off(self, reading: Floats) -> Floats:
        """How many noises a reading lies from the centre; the last axes are readings where there are more."""
        shape = (-1,) + (1,) * (reading.ndim - 1)
        return (reading - self.centre.reshape(shape)) / self.noise.reshape(shape)


def reference(repeats: Floats, older: Floats) -> Reference:
    """From the baseline's repeats, series × K, and the nights before the window, series × any (NaN: no such night).

    The nights count about the baseline's centre, not their own: where K repeats got the centre wrong, that is noise.
    """
    centre = repeats.mean(axis=1)
    num = repeats.shape[1]
    num_older = np.count_nonzero(~np.isnan(older), axis=1)
    squares = np.nansum((older - centre[:, None]) ** 2, axis=1) / (1 + 1 / num)
    freedom = num - 1.0 + num_older
    variance = ((num - 1) * repeats.var(axis=1, ddof=1) + squares) / freedom
    least = RESOLUTION * np.maximum(np.abs(centre), RESOLUTION)
    return Reference(centre, np.maximum(np.sqrt(variance), least), freedom, num)


def score(window: Floats, ref: Reference) -> Floats:
    """Of the last five readings, series × WINDOW: clipped mean in units of its error; 0 before there are five."""
    full = ~np.isnan(window).any(axis=1)
    mean = np.clip(ref.off(np.nan_to_num(window)), -CLIP, CLIP).mean(axis=1)
    return np.asarray(np.where(full, mean / np.sqrt(CORRECTION + 1 / ref.repeats), 0.0))


def alone(reading: Floats, ref: Reference) -> Floats:
    """One reading in units of its error as a prediction from the repeats."""
    return np.asarray(ref.off(reading) / np.sqrt(1 + 1 / ref.repeats))


def limit(ref: Reference, figures: float | Floats = 1.0) -> Floats:
    """The size of a score that chance gives too rarely to be it, for a claim of so many independent figures."""
    chance = FALSE_PER_MONTH / LOOKS / figures
    return np.asarray(stats.t.isf(chance / 2, ref.freedom), dtype=np.float64)


def wants_again(before: Floats, tonight: Floats, ref: Reference) -> Bools:
    """Whether a night is odd enough to be read again. before: the last four readings, series × 4, the latest last."""
    off = ref.off(tonight)
    pair = np.nan_to_num((off + ref.off(before[:, -1])) / 2)
    window = np.concatenate([before, tonight[:, None]], axis=1)
    return (np.abs(off) > ODD) | (np.abs(pair) > ODD_PAIR) | (np.abs(score(window, ref)) > ODD_WINDOW)


def reading(tonight: Floats, again: Floats) -> Floats:
    """The night's reading: the median of the run and its re-runs, series × N."""
    return np.asarray(np.median(np.concatenate([tonight[:, None], again], axis=1), axis=1))


def outside(before: Floats, reading: Floats, ref: Reference, figures: float | Floats = 1.0) -> Bools:
    """Whether the last five nights together lie outside the band."""
    return np.asarray(np.abs(score(np.concatenate([before, reading[:, None]], axis=1), ref)) > limit(ref, figures))


def flagged(before: Floats, tonight: Floats, again: Floats, ref: Reference, figures: float | Floats = 1.0) -> Bools:
    """Whether a night that was read again is a flag."""
    night = reading(tonight, again)
    window = score(np.concatenate([before, night[:, None]], axis=1), ref)
    rerun = ref.off(np.asarray(np.median(again, axis=1)))
    same = (np.sign(rerun) == np.sign(window)) & (np.abs(rerun) > CONFIRMS)
    return np.asarray((same & (np.abs(window) > limit(ref, figures))) | (np.abs(alone(night, ref)) > AT_ONCE))


def independent(repeats: Floats) -> float:
    """How many independent figures a claim's figures amount to: figures × K repeats, most of them ratios to one pass.

    (sum of eigenvalues)² / (sum of their squares) of the correlations: 1 where all move together, their number where
    none does.
    """
    varying = repeats[repeats.std(axis=1) > 0]
    if len(varying) < 2:
        return 1.0
    eigenvalues = np.linalg.eigvalsh(np.corrcoef(varying))
    return float(eigenvalues.sum() ** 2 / (eigenvalues**2).sum())


def has_trend(readings: Any) -> bool:
    """Whether nights in order rise or fall more than chance does: Kendall's tau, ten nights at least. Never a flag.

    Change-point tools flag 4 % of quiet 60-night series at p = .001 and 40 % at .01: a trend is only a remark.
    """
    if len(readings) < 10:
        return False
    return bool(stats.kendalltau(np.arange(len(readings)), readings).pvalue < 0.001)
