"""Faults to plant in the claims on what the chapter leaves out and on the chapter as a text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lib.intervals import Estimate, as_estimate
from reports.plants import Real, result

if TYPE_CHECKING:
    from torch import Tensor

    from lib.live_bytes import Peak


def rounded_or_cut(real: Real) -> Real:
    """Digits stand for what rounds to them and for what begins with them."""
    return result(lambda e: Estimate(e.value, e.low, e.value + 2 * (e.high - e.value)))(real)


def without_rounding(real: Real) -> Real:
    """Digits stand for one number."""
    return result(lambda stated: as_estimate(stated.value))(real)


def one_turned_round(real: Real) -> Real:
    """In one of the comparisons, the smaller figure stands where the larger should."""

    def wrong(name: str, smaller: Any, larger: Any) -> Any:
        turned = name == "INT8 below the reference here"
        return real(name, larger, smaller) if turned else real(name, smaller, larger)

    return wrong


def written_out(_real: Real) -> Real:
    """The fused operation falls back, without a word, to scores and weights in memory."""
    from lib.flash import explicit

    def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return explicit(q, k, v)

    return fused


def coarse_queries(real: Real) -> Real:
    """Queries lose what bfloat16 cannot hold, whatever their format."""
    import torch

    def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        output: Tensor = real(q.to(torch.bfloat16).to(q.dtype), k, v)
        return output

    return fused


def one_part_in_a_thousand(real: Real) -> Real:
    """Every output is a thousandth too large."""

    def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        output: Tensor = real(q, k, v) * 1.001
        return output

    return fused


def no_mask_found(real: Real) -> Real:
    """A mask that is handed over goes unnoticed."""
    return result(lambda handed: replace(handed, mask_bytes=0))(real)


def at_the_end(real: Real) -> Real:
    """What is alive is read off the result alone."""

    def emptied(found: tuple[Any, Peak]) -> tuple[Any, Peak]:
        output, peak = found
        return output, replace(peak, alive=(), live_bytes=peak.end_bytes)

    return result(emptied)(real)


def largest_alone(real: Real) -> Real:
    """Of everything alive at once, the largest tensor is counted."""

    def largest(peak: Peak) -> Peak:
        return replace(peak, live_bytes=max(tensor.storage_bytes for tensor in peak.alive))

    return result(largest)(real)


def one_overlooked(real: Real) -> Real:
    """The last numeral of the text is not found."""
    return result(lambda numerals: numerals[:-1])(real)


def another_digit(real: Real) -> Real:
    """A published figure is written down with a slip of the pen."""

    def slipped(figures: Any) -> Any:
        sizes = {**figures["cache-size.allocator-295"], "bytes": "3,624,961"}
        return {**figures, "cache-size.allocator-295": sizes}

    return result(slipped)(real)
