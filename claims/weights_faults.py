"""Faults for the claims about weights: slips that an instrument, a packed format or a table of errors could make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from reports.plants import Real, mistaken, result

if TYPE_CHECKING:
    from torch import Tensor

    from lib.quantization.errors import ErrorTable
    from lib.tensor_scale import TensorScaleProfile


TABLE, COMPARISON = "lib.quantization.errors.ErrorTable", "lib.quantization.comparison"
SCALE, STATS = "lib.tensor_scale", "lib.weight_stats"
ABSMAX, NF4, PACKING = "lib.quantization.absmax", "lib.quantization.nf4", "lib.quantization.packing"
QUALITY = "fixtures.quality_readings.Quality"
STEPS, ROUNDS = "claims.weight_steps.WeightSteps", "lib.timing.rounds.Rounds"

always_widened = mistaken(dict.fromkeys(["bf16", "fp16", "int8", "int4"], "int4, dequantized first"))
"""Weights of every format are widened in memory first."""


def always_binary(real: Real) -> Real:
    """A unit means its binary one, whatever convention is asked for."""
    return lambda count, unit, _convention: real(count, unit, "binary")


def cutting_off(real: Real) -> Real:
    """The printed formula, with weights cut off towards zero instead of rounded."""

    def wrong(weights: Tensor, bits: int) -> tuple[Tensor, Tensor]:
        scale = real(weights, bits)[1]
        return (weights / scale).trunc(), scale

    return wrong


guarded = result(lambda found: (found[0].nan_to_num(), found[1]))
"""The printed formula, with 0/0 made 0."""


def with_embedding(real: Real) -> Real:
    """The output embedding is taken for one more projection."""
    return lambda model: real(model) | {"lm_head": model.get_output_embeddings().weight}


def with_biases(real: Real) -> Real:
    """Every bias is taken for one more column of its matrix."""

    def wrong(model: Any) -> dict[str, Tensor]:
        import torch

        found = {name: (weight, model.get_submodule(name).bias) for name, weight in real(model).items()}
        return {n: w if b is None else torch.cat([w, b[:, None]], dim=1) for n, (w, b) in found.items()}

    return wrong


def last_matrix_as(scheme: str, other: str) -> Callable[[Real], Real]:
    """In the column of a scheme, the last matrix's error is the one that another scheme leaves."""

    def plant(real: Real) -> Real:
        def wrong(table: ErrorTable, asked: str, matrices: Any = None) -> list[float]:
            found = real(table, asked, matrices)
            return [*found[:-1], real(table, other, matrices)[-1]] if asked == scheme else found

        return wrong

    return plant


def cut_off_column(scheme: str) -> Callable[[Real], Real]:
    """A scheme that cuts off instead of rounding: 1.6 to 1.9 times the error on three matrices of the sibling."""

    def plant(real: Real) -> Real:
        def wrong(table: ErrorTable, asked: str, matrices: Any = None) -> list[float]:
            found = real(table, asked, matrices)
            return [1.6 * error for error in found] if asked == scheme else found

        return wrong

    return plant


def from_one_scale_per_matrix(real: Real) -> Real:
    """The way down to 8 bits is counted from one scale per matrix, wherever it is to start."""
    return lambda table, start, scheme, goal: real(table, "int4-tensor", scheme, goal)


def clipped_scale(real: Real) -> Real:
    """Weights in steps of a scale that is taken from six deviations instead of the largest weight."""

    def wrong(profile: TensorScaleProfile, bits: int) -> float:
        return float(real(profile, bits)) * profile.summary.max_over_std / 6

    return wrong


def tail_clipped(_real: Any) -> property:
    """The largest weight lies at most six deviations away: the rest of the tail has been cut off."""
    return property(lambda summary: min(6.0, summary.max_abs / summary.std))


def kinds_pooled(_real: Real) -> Real:
    """One number for all kinds of matrices together."""
    return lambda values, summary: {"all": summary(values.values())}


def columns_made_equal(real: Real) -> Real:
    """Every input column is brought to one size before its blocks are tested."""

    def wrong(weights: Mapping[str, Tensor], block: int, every: int) -> Any:
        from lib.block_shape import with_equal_columns

        return real({name: with_equal_columns(w[::every]) for name, w in weights.items()}, block, 1)

    return wrong


def least_damaged(_real: Real) -> Real:
    """The matrix with the smallest error is taken for the one with the largest."""
    return lambda profiles: min(profiles.items(), key=lambda item: item[1].int4.relative_error)


def counted_in_every_row(real: Real) -> Real:
    """So many weights are taken out of every row (but no more than one in 400 in all), not out of the matrix."""

    def wrong(scheme: Any, weights: Tensor, counts: list[int]) -> Any:
        return real(scheme, weights, [min(count * len(weights), weights.numel() // 400) for count in counts])

    return wrong


def even_levels(_real: Real) -> Real:
    """NF4's levels lie at even distances."""
    from lib.quantization import nf4

    return nf4.even_levels


def equally_probable_levels(_real: Real) -> Real:
    """NF4's levels are the sixteen equally probable quantiles."""
    from lib.quantization import nf4

    return nf4.equal_mass_levels
