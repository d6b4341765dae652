"""The memory budget of a card: what remains for context once the weights are in, and what a printed budget hides.

    card = weights + reserve + tokens × bytes per token

All bytes are exact (integers or fractions), tokens are whole, so a printed token count pins the unknown terms to an
interval one token wide. Intervals of that kind are half open, `Range`: one byte more would cost a token.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

Exact = int | Fraction

BITS_PER_BYTE = 8


@dataclass(frozen=True)
class Range:
    """The numbers x with above < x ≤ up_to."""

    above: Exact
    up_to: Exact

    def __contains__(self, number: Exact) -> bool:
        return self.above < number <= self.up_to

    def width(self) -> Exact:
        """How far the number is from being pinned down; negative or zero when the range is empty."""
        return self.up_to - self.above


@dataclass(frozen=True)
class Quoted:
    """A printed token count with what is known of its setting; weights_low and weights_high bound the weights."""

    card_bytes: Exact
    weights_low: Exact
    weights_high: Exact
    bytes_per_token: int
    tokens: int


@dataclass(frozen=True)
class ModelSize:
    """A model by what a budget needs: parameters, and the bytes that one resident token costs."""

    name: str
    parameters: int
    bytes_per_token: int


@dataclass(frozen=True)
class Scheme:
    """How weights are stored; bits per weight include scales where the scheme counts them."""

    name: str
    bits: Exact


@dataclass(frozen=True)
class Cell:
    """One entry of a budget table."""

    card: str
    model: str
    scheme: str
    weights_bytes: Exact
    weights_fit: bool
    tokens: int

    def users(self, context: int) -> int:
        """How many requests of this many resident tokens each fit at once."""
        return self.tokens // context


@dataclass(frozen=True)
class Gap:
    """Why one model gets more context than another on the same card: two factors whose product is the gap.

    bytes_per_token: the dear model's over the cheap one's. remaining_memory: the cheap model's over the dear one's.
    """

    bytes_per_token: Fraction
    remaining_memory: Fraction

    @property
    def share_of_bytes_per_token(self) -> float:
        """The part of the gap, on a logarithmic scale, that the price of a token explains."""
        price, memory = math.log(self.bytes_per_token), math.log(self.remaining_memory)
        return price / (price + memory)


def weight_bytes(parameters: int, bits: Exact) -> Fraction:
    """Bytes of that many parameters at that many bits each, exact: a fraction where they fill no whole byte."""
    return Fraction(bits) * parameters / BITS_PER_BYTE


def resident_tokens(card_bytes: Exact, weights: Exact, bytes_per_token: int, reserve: Exact = 0) -> int:
    """Whole tokens of context that fit beside weights and reserve; 0 when not even those fit."""
    return max(0, math.floor(Fraction(card_bytes - weights - reserve) / bytes_per_token))


def context_gap(card_bytes: Exact, cheap: tuple[Exact, int], dear: tuple[Exact, int], reserve: Exact = 0) -> Gap:
    """Factor the ratio of two token counts; each model is (bytes of weights, bytes per token). Floors are ignored."""
    (cheap_weights, cheap_price), (dear_weights, dear_price) = cheap, dear
    left = Fraction(card_bytes - cheap_weights - reserve), Fraction(card_bytes - dear_weights - reserve)
    return Gap(Fraction(dear_price, cheap_price), left[0] / left[1])


def reserve_range(quoted: Quoted) -> Range:
    """Every reserve (bytes) that gives exactly the quoted tokens for some weights within their bounds."""
    most = quoted.card_bytes - quoted.weights_low - quoted.tokens * quoted.bytes_per_token
    least = quoted.card_bytes - quoted.weights_high - (quoted.tokens + 1) * quoted.bytes_per_token
    return Range(least, most)


def reserve_share_range(quoted: Quoted, of_low: Exact, of_high: Exact) -> Range:
    """The same as a share of something (the card, the weights) that lies between of_low and of_high bytes.

    Meant for reserves that can be positive only, so that the outer bounds are these.
    """
    plain = reserve_range(quoted)
    return Range(Fraction(plain.above) / of_high, Fraction(plain.up_to) / of_low)


def common_range(ranges: Iterable[Range]) -> Range | None:
    """What all ranges allow, or None when they exclude one another."""
    listed = list(ranges)
    both = Range(max(r.above for r in listed), min(r.up_to for r in listed))
    return both if both.width() > 0 else None


def bits_range(card_bytes: Exact, reserve: Range, model: ModelSize, tokens: int) -> Range:
    """Bits per weight that give exactly these tokens for some reserve within its range."""
    spare = card_bytes - tokens * model.bytes_per_token
    per_weight = Fraction(BITS_PER_BYTE, model.parameters)
    return Range(per_weight * (spare - model.bytes_per_token - reserve.up_to), per_weight * (spare - reserve.above))


def shared_bits_range(small: tuple[ModelSize, int], large: tuple[ModelSize, int]) -> Range:
    """Bits per weight implied by two models' tokens on one card, whatever its size and reserve are.

    Both drop out of the difference of the two sums. Each argument is (model, quoted tokens).
    """
    (a, a_tokens), (b, b_tokens) = small, large
    difference = a_tokens * a.bytes_per_token - b_tokens * b.bytes_per_token
    per_weight = Fraction(BITS_PER_BYTE, b.parameters - a.parameters)
    return Range(per_weight * (difference - b.bytes_per_token), per_weight * (difference + a.bytes_per_token))


def budget_table(
    cards: Sequence[tuple[str, Exact]], models: Sequence[ModelSize], schemes: Sequence[Scheme], reserve: Exact
) -> list[Cell]:
    """Every card × model × scheme, in that order."""
    return [_cell(card, model, scheme, reserve) for card, model, scheme in product(cards, models, schemes)]


def _cell(card: tuple[str, Exact], model: ModelSize, scheme: Scheme, reserve: Exact) -> Cell:
    name, card_bytes = card
    weights = weight_bytes(model.parameters, scheme.bits)
    tokens = resident_tokens(card_bytes, weights, model.bytes_per_token, reserve)
    return Cell(name, model.name, scheme.name, weights, weights <= card_bytes, tokens)
