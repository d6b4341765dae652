"""Faults to plant in an instrument: each takes the real thing and gives a wrong one with the same signature.

For functions, for methods reached through their class, and with `of_property` for its properties. What is returned may
be a number, an interval, or any nesting of sequences and mappings of them; everything else passes through untouched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

from lib.intervals import Estimate

Real = Callable[..., Any]


def scaled(factor: float | Fraction) -> Callable[[Real], Real]:
    """The instrument reads this many times too much."""
    return result(lambda found: numbers(found, lambda n: _times(n, factor)))


def _times(number: Any, factor: float | Fraction) -> Any:
    """A product that stays exact for what was exact: instruments count in integers and divide in fractions."""
    if isinstance(number, float):
        return number * float(factor)
    product = number * Fraction(factor)
    return int(product) if product.denominator == 1 else product


def shifted(amount: float) -> Callable[[Real], Real]:
    """The instrument reads this much too much."""
    return result(lambda found: numbers(found, lambda n: n + amount))


def reads(value: Any) -> Callable[[Any], Any]:
    """The instrument always reads this, whatever it is pointed at; a constant is replaced by it."""

    def plant(real: Any) -> Any:
        return (lambda *_args, **_kwargs: value) if callable(real) else value

    return plant


def result(change: Callable[[Any], Any]) -> Callable[[Real], Real]:
    """The instrument works, and then its reading is changed."""

    def plant(real: Real) -> Real:
        @functools.wraps(real)
        def wrong(*args: Any, **kwargs: Any) -> Any:
            return change(real(*args, **kwargs))

        return wrong

    return plant


def argument(name: str, change: Callable[[Any], Any]) -> Callable[[Real], Real]:
    """The instrument is sound but is pointed at the wrong thing: one argument, given by keyword, is changed."""

    def plant(real: Real) -> Real:
        @functools.wraps(real)
        def wrong(*args: Any, **kwargs: Any) -> Any:
            return real(*args, **{**kwargs, name: change(kwargs[name])})

        return wrong

    return plant


def mistaken(given: Mapping[Any, Any]) -> Callable[[Real], Real]:
    """The method is asked for one thing and takes another: rows mixed up. given: asked for → taken."""

    def plant(real: Real) -> Real:
        @functools.wraps(real)
        def wrong(self: Any, asked: Any, *args: Any, **kwargs: Any) -> Any:
            return real(self, given.get(asked, asked), *args, **kwargs)

        return wrong

    return plant


def exchanged(first: Any, second: Any) -> Callable[[Real], Real]:
    """The method takes either of two things for the other."""
    return mistaken({first: second, second: first})


def of_property(plant: Callable[[Real], Real]) -> Callable[[Any], Any]:
    """The same fault for what is a property of a class, reached through it."""
    return lambda real: property(plant(real.fget))


def numbers(value: Any, change: Callable[[Any], Any], flip: bool = False) -> Any:
    """Every number in the value changed (an interval at all its ends), or with flip every truth turned round."""
    if isinstance(value, bool):
        return not value if flip else value
    if isinstance(value, int | float | Fraction):
        return value if flip else change(value)
    if isinstance(value, Estimate):
        ends = sorted(change(n) for n in (value.low, value.value, value.high))
        return value if flip else Estimate(ends[1], ends[0], ends[2])
    if isinstance(value, Mapping):
        return {key: numbers(item, change, flip) for key, item in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(numbers(item, change, flip) for item in value)
    return _fields_of(value, change, flip)


def _fields_of(value: Any, change: Callable[[Any], Any], flip: bool) -> Any:
    """A dataclass of numbers, each of them changed; anything else as it is."""
    if not is_dataclass(value) or isinstance(value, type):
        return value
    changed = {f.name: numbers(getattr(value, f.name), change, flip) for f in fields(value) if f.init}
    return replace(value, **changed)
