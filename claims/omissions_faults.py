"""Faults to plant in the claims on what the chapter leaves out and on the chapter as a text."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

from lib.intervals import Estimate, as_estimate
from reports.plants import Real, result

if TYPE_CHECKING:
    from torch import Tensor

    from lib.live_bytes import Peak


def rounded_or_cut(real: Real) -> Real:
    """Digits stand for what rounds to them and for what begins with them."""
    return result(lambda stated: Estimate(stated.value, stated.low, 2 * stated.high - stated.value))(real)


def without_rounding(real: Real) -> Real:
    """Digits stand for one number."""
    return result(lambda stated: as_estimate(stated.value))(real)


def misread(real: Real) -> Real:
    """24.55 is read as 24.65."""
    return lambda text: real("24.65" if text == "24.55" else text)


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


def a_ten_thousandth_more(real: Real) -> Real:
    """Every output is slightly too large; in 16-bit formats nobody can see that."""

    def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        output: Tensor = real(q, k, v) * 1.0001
        return output

    return fused


def looks_ahead(real: Real) -> Real:
    """The causal mask is off by one; a single query, which sees every key, is as it was."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows, columns = q.shape[2], k.shape[2]
        if rows == 1:
            return real(q, k, v)  # type: ignore[no-any-return]
        visible = torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows + 1)
        return scaled_dot_product_attention(q, k, v, attn_mask=visible, enable_gqa=q.shape[1] != k.shape[1])

    return fused


def no_mask_found(real: Real) -> Real:
    """A mask that is handed over goes unnoticed."""
    return result(lambda handed: replace(handed, mask_bytes=0))(real)


def mask_spelled_out(real: Real) -> Real:
    """A pass over a whole text without padding is handed its causal mask as a tensor."""
    import torch

    @wraps(real)
    def wrong(model: Any, ids: Tensor, *, cache: Any = None, attention_mask: Any = None, **choices: Any) -> Any:
        if cache is None and (attention_mask is None or bool(attention_mask.all())):
            rows, n = ids.shape
            attention_mask = torch.ones(n, n, dtype=torch.bool).tril().expand(rows, 1, n, n)
        return real(model, ids, cache=cache, attention_mask=attention_mask, **choices)

    return wrong


def at_the_end(real: Real) -> Real:
    """What is alive is read off the result alone."""

    def emptied(found: tuple[Any, Peak]) -> tuple[Any, Peak]:
        output, peak = found
        return output, replace(peak, alive=(), live_bytes=peak.end_bytes)

    return result(emptied)(real)


def one_overlooked(real: Real) -> Real:
    """The last numeral of the text is not found."""
    return result(lambda numerals: numerals[:-1])(real)


def another_digit(real: Real) -> Real:
    """A published figure is written down with a slip of the pen."""

    def slipped(figures: Any) -> Any:
        sizes = {**figures["cache-size.allocator-295"], "bytes": "3,624,961"}
        return {**figures, "cache-size.allocator-295": sizes}

    return result(slipped)(real)
