"""Faults for the claims about activations: read at the wrong place, scaled the wrong way, or taken for one another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from fixtures.techniques import REFERENCE, STREAM, TENSOR, TOKEN
from lib.activation_outliers import layer_peak
from reports.plants import Real, mistaken

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from fixtures.residual_stream import Streams
    from fixtures.techniques import Runs
    from lib.activation_outliers import LevelUse
    from lib.intervals import Estimate
    from lib.quantization.outlier_dependence import Dependence

STREAMS, RUNS = "fixtures.residual_stream.Streams", "fixtures.techniques.Runs"
TABLES, DEPENDENCE = "claims.technique_tables", "lib.quantization.outlier_dependence.Dependence"

per_token_for_per_tensor = mistaken({f"{STREAM}, {TENSOR}": f"{STREAM}, {TOKEN}"})


def without_first_token(real: property) -> property:
    """The prose's stream without its first position."""
    return _of_prose(real, lambda stream: stream[:, 1:])


def what_blocks_add(real: property) -> property:
    """What every block adds to the prose's stream, in place of the stream."""
    return _of_prose(real, lambda stream: stream.diff(dim=0, prepend=stream.new_zeros(1, *stream.shape[1:])))


def up_to_layer_16(real: property) -> property:
    """The prose's stream without the layers in which all dimensions grow."""
    return _of_prose(real, lambda stream: stream[:17])


def from_a_thousandth(real: Real) -> Real:
    """A position carries the outlier from a thousandth of the largest value on."""
    return lambda h, dimension: real(h, dimension, 0.001)


def largest_at_every_position(real: Real) -> Real:
    """A layer's largest value in a dimension counts at all of its positions."""
    return lambda stream, dimension: real(stream.abs().amax(1, keepdim=True).expand_as(stream), dimension)


def with_trained_weights(_real: Real) -> Real:
    """The model itself in place of the one with random weights."""

    from lib.activations import residual_stream

    def wrong(model: PreTrainedModel, ids: Tensor) -> float:
        peaks = [layer_peak(h) for h in residual_stream(model, ids)[:, 0]]
        return max(p.peak / p.median_magnitude for p in peaks)

    return wrong


def next_dimension(real: Real) -> Real:
    """Dimensions are counted from 1."""
    return lambda model, vocab, depth, dimension: real(model, vocab, depth, dimension + 1)


def by_itself(_real: Real) -> Real:
    """Every value is divided by itself."""
    return lambda values: dict.fromkeys(values, 1.0)


def from_128_on(real: Real) -> Real:
    """Empty bins are looked for from 128 on, wherever the pile ends."""
    return lambda counts, edges, _start: real(counts, edges, 128)


def one_sign_only(real: Real) -> Real:
    """Codes of one sign are counted, with zero."""
    return lambda bound, scale: (real(bound, scale) + 1) // 2


def rounding_up(_real: Real) -> Real:
    """Magnitudes are rounded up to the next code."""
    return lambda bound, scale: 2 * ceil(bound / scale) + 1


def one_scale_per_token(real: Real) -> Real:
    """Every token is brought to one magnitude first, as with a scale of its own."""

    def wrong(h: Tensor) -> LevelUse:
        found: LevelUse = real(h / h.abs().amax(1, keepdim=True))
        return found

    return wrong


def last_token_left_out(_real: Real) -> Real:
    """The last position is left out, not the one with the largest value."""
    return lambda h: h[:-1]


def nothing_left_out(real: Real) -> Real:
    """The top dimensions stay in the tensor and in its scale."""
    return lambda h, dimension, **_without_top: real(h, dimension)


def whole_loss(_real: Real) -> Real:
    """The loss of a run, not what it is above another's."""

    from lib.clusters import cluster_mean

    def wrong(runs: Runs, name: str, beyond: str = REFERENCE) -> Estimate:
        return cluster_mean(runs.scores[name].loss.tolist())

    return wrong


def turned_round(real: Real) -> Real:
    """The second in place of the first, and the first in place of the second."""
    return lambda runs, first, second: real(runs, second, first)


def outliers_still_there(real: Real) -> Real:
    """What is said to be without outliers has them."""

    def wrong(needs: Dependence, *ways: object) -> Estimate:
        found: Estimate = real(replace(needs, absent=needs.present), *ways)
        return found

    return wrong


def without_weight_techniques(real: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The list of techniques without those that round weights alone."""
    return {name: ways for name, ways in real.items() if name not in {"AWQ", "GPTQ"}}


def _of_prose(real: property, change: Callable[[Tensor], Tensor]) -> property:
    def wrong(streams: Streams) -> Tensor:
        return change(real.__get__(streams))

    return property(wrong)
