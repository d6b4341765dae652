"""Statements and tests come in pairs: every statement that is not pending has exactly one test, and the reverse.

Read from the source with `ast`, so that the check costs no import and does not depend on what was selected.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

from reports.ledger import Ledger, LedgerError

# Decorators that plant a fault in a claim, or say why none can be planted (reports/controls.py).
CONTROLS = frozenset({"control", "misprint", "uncontrolled"})
REMEDY = "plant a fault with @control or @misprint, or say with @uncontrolled why none can be"


def declared_tests(path: Path) -> Iterator[tuple[str, str]]:
    """(test name, statement id) of every test decorated with ``@claim("…")`` in a module."""
    for node, statement_id in _claims_in(path):
        yield node.name, statement_id


def check_controls(folder: Path, sections: Collection[str] | None = None) -> None:
    """Raise LedgerError naming the first claim without a negative control: nobody would know whether it can fail."""
    for path in _modules(folder, sections):
        for node, statement_id in _claims_in(path):
            if not CONTROLS & {_name_of(decorator) for decorator in node.decorator_list}:
                raise LedgerError(f"{path.name}: {node.name}: statement {statement_id!r} has no control: {REMEDY}")


def _claims_in(path: Path) -> Iterator[tuple[ast.FunctionDef, str]]:
    for node in ast.parse(path.read_text(encoding="utf-8"), filename=path.name).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            statement_id = _claim_argument(decorator)
            if statement_id is not None:
                yield node, statement_id


def _modules(folder: Path, sections: Collection[str] | None) -> list[Path]:
    found = sorted(folder.glob("test_*.py"))
    return [path for path in found if sections is None or path.stem.removeprefix("test_") in sections]


def _name_of(decorator: ast.expr) -> str:
    match decorator:
        case ast.Call(func=ast.Name(id=name)):
            return name
    return ""


def tests_of(folder: Path, sections: Collection[str] | None = None) -> dict[str, str]:
    """("test_x.py::test_y") → statement id, for a folder of claims. Raises LedgerError on a doubled id."""
    pairs: dict[str, str] = {}
    for path in _modules(folder, sections):
        for test, statement_id in declared_tests(path):
            if statement_id in pairs.values():
                raise LedgerError(f"{path.name}: {test}: statement {statement_id!r} already has a test")
            pairs[f"{path.name}::{test}"] = statement_id
    return pairs


def check_pairs(ledger: Ledger, tests: dict[str, str]) -> None:
    """Raise LedgerError naming the first statement without a test, or test without a statement."""
    for node, statement_id in tests.items():
        statement = ledger.statements.get(statement_id)
        if statement is None:
            raise LedgerError(f"{node}: no statement {statement_id!r} in the ledger")
        if statement.pending:
            raise LedgerError(f"{node}: statement {statement_id!r} is marked pending but has a test")
        expected = f"test_{statement.section.replace('-', '_')}.py"
        if not node.startswith(f"{expected}::"):
            raise LedgerError(f"{node}: the test of {statement_id!r} belongs in {expected}")
    for statement in ledger.statements.values():
        if not statement.pending and statement.id not in tests.values():
            raise LedgerError(f"{statement.source}: statement {statement.id!r} has no test")


def _claim_argument(decorator: ast.expr) -> str | None:
    match decorator:
        case ast.Call(func=ast.Name(id="claim"), args=[ast.Constant(value=str(statement_id))]):
            return statement_id
    return None
