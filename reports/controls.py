"""Negative controls: a fault planted in what a claim measures, or in what is printed; its verdict must flip under it.

A control is registered next to the claim that it is for::

    @claim("cache-size.allocator-295")
    @control("every tensor is counted twice", "storage_bytes", scaled(2))
    def test_allocator_295(claim, model): ...

Its target is a name in the claim's own module, or a dotted one; the plant takes what stands there and gives what stands
there instead while the test runs. Session fixtures are set up before and stay sound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from reports.ledger import Figure, Statement

Plant = Callable[[Any], Any]
MARKER = "control"
NO_RECORD = "nothing on record for this model that a fault could flip: write the verdict into the ledger first"


class NoSuchTarget(LookupError):
    """A control names something that is not there: the plant would change nothing."""


@dataclass(frozen=True)
class Control:
    """One planted fault, in words and in deed; `prints` is a figure of the statement that is printed otherwise."""

    what: str
    target: str = ""
    plant: Plant | None = None
    prints: tuple[str, str] | None = None
    slow: bool = False


def control(what: str, target: str, plant: Plant, *, slow: bool = False) -> pytest.MarkDecorator:
    """Register a fault: while the test runs, `target` is `plant(what stood there)`.

    slow: the test takes more than some ten seconds under it, or wants the machine to itself.
    """
    return pytest.mark.control(Control(what, target, plant, slow=slow))


def misprint(figure: str, value: str, *, slow: bool = False) -> pytest.MarkDecorator:
    """Register a fault in the text: the figure of this name were printed (or demanded) as `value`."""
    return pytest.mark.control(Control(f"{figure} is {value} in the text", prints=(figure, value), slow=slow))


def uncontrolled(reason: str) -> pytest.MarkDecorator:
    """Say why nothing can be planted: the statement is not executed here at all."""
    return pytest.mark.uncontrolled(reason)


def controls_of(marks: Iterator[pytest.Mark]) -> list[Control]:
    """The registered controls in the order in which they are read."""
    return [mark.args[0] for mark in marks][::-1]


@contextmanager
def planted(given: Control, module: ModuleType) -> Iterator[None]:
    """The fault in place, and gone afterwards. Raises NoSuchTarget."""
    if given.plant is None:
        yield
        return
    owner, name = _find(given.target, module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, given.plant(getattr(owner, name)))
        yield


def misprinted(statement: Statement, given: Control | None) -> Statement:
    """The statement as it would read with the control's misprint. Raises NoSuchTarget for a figure it does not have."""
    if given is None or given.prints is None:
        return statement
    name, value = given.prints
    if name not in statement.figures:
        raise NoSuchTarget(f"{statement.id} has no figure {name!r} to misprint")
    wrong: Figure = replace(statement.figures[name], value=value)
    return replace(statement, figures={**statement.figures, name: wrong})


def _find(target: str, module: ModuleType) -> tuple[Any, str]:
    """The object that holds the target, and its name there: of the module itself, or along a dotted path."""
    path, _, name = target.rpartition(".")
    owner = _import(path) if path else module
    if not hasattr(owner, name):
        raise NoSuchTarget(f"nothing called {target!r} to plant a fault in")
    return owner, name


def _import(path: str) -> Any:
    """A module, or a class in one."""
    try:
        return import_module(path)
    except ModuleNotFoundError as missing:
        outer, _, name = path.rpartition(".")
        if not outer:
            raise NoSuchTarget(f"no module {path!r}") from missing
        return getattr(_import(outer), name)
