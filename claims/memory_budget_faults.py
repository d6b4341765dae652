"""Faults to plant in the claims on the memory budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from lib.budget import Cell, Exact, Gap, ModelSize
from lib.intervals import Estimate
from lib.units import ByteFigure, Convention
from reports.plants import Real, result


def set_aside_at_least(least: int) -> Callable[[Real], Real]:
    """Nobody can turn the reserve off."""

    def plant(real: Real) -> Real:
        def wrong(card: Exact, weights: Exact, price: int, reserve: Exact = 0) -> int:
            tokens: int = real(card, weights, price, max(reserve, least))
            return tokens

        return wrong

    return plant


def grouped_like_the_7b(size: ModelSize) -> ModelSize:
    """The 13B with 8 key-value heads instead of 40."""
    return replace(size, bytes_per_token=size.bytes_per_token // 5)


def factors_exchanged(real: Real) -> Real:
    """The memory left stands where the price of a token should."""
    return result(lambda gap: Gap(gap.remaining_memory, gap.bytes_per_token))(real)


def rows_exchanged(real: Real) -> Real:
    """The 7B's name stands over the 13B's cells and the other way round."""
    other = {"7B": "13B", "13B": "7B"}

    def renamed(cells: list[Cell]) -> list[Cell]:
        return [replace(cell, model=other.get(cell.model, cell.model)) for cell in cells]

    return result(renamed)(real)


def fits_any(_real: Real) -> Real:
    """The union of what the figures allow, where their intersection is asked for."""

    def union(figures: Iterable[ByteFigure]) -> frozenset[Convention]:
        return frozenset().union(*(figure.conventions() for figure in figures))

    return union


def without_decimal(figures: Iterable[ByteFigure]) -> list[ByteFigure]:
    """Only figures that powers of 1024 give."""
    return [figure for figure in figures if "binary" in figure.conventions()]


def eight_percent(real: Real) -> Real:
    """Digits stand for more than what rounds to them."""
    return result(lambda stated: Estimate(stated.value, stated.low * 0.92, stated.high * 1.08))(real)
