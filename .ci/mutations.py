"""Small wrong variants of a module's source, one at a time, as text: the rest of the file stays as it is.

Left alone: texts, annotations, type aliases, decorators, `__repr__`, `if TYPE_CHECKING` and what f-strings hold.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}
UNTOUCHED = {"annotation", "returns", "decorator_list", "type_comment"}


@dataclass(frozen=True)
class Mutant:
    """key: function and change, the same in every run while that code stays; source: the whole mutated file."""

    key: str
    line: int
    source: str


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a file that still compiles."""
    seen: Counter[str] = Counter()
    found = []
    for where, old, new in _changes(ast.parse(source), ""):
        text = ast.unparse(new)
        key = f"{where}: {' '.join((ast.get_source_segment(source, old) or '').split())} → {' '.join(text.split())}"
        seen[key] += 1
        key += f" #{seen[key]}" if seen[key] > 1 else ""
        plain = isinstance(new, ast.stmt | ast.Constant | ast.Name)
        mutated = _replaced(source, old, text if plain else f"({text})")
        try:
            compile(mutated, "mutant", "exec", dont_inherit=True)
        except SyntaxError:
            continue
        found.append(Mutant(key, old.lineno, mutated))
    return found


def _replaced(source: str, node: ast.expr | ast.stmt, text: str) -> str:
    lines = source.encode().splitlines(keepends=True)  # ast counts columns in bytes
    start, end = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    head, tail = lines[start][: node.col_offset], lines[end][node.end_col_offset :]
    return b"".join([*lines[:start], head, text.encode(), tail, *lines[end + 1 :]]).decode()


def _changes(node: ast.AST, where: str) -> Iterator[tuple[str, ast.expr | ast.stmt, ast.expr | ast.stmt]]:
    """Function, node and what takes its place, from the top down."""
    if isinstance(node, ast.JoinedStr) or getattr(node, "name", "") == "__repr__" or _is_alias(node, where):
        return
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        where = f"{where}.{node.name}".lstrip(".")
    if isinstance(node, ast.expr | ast.stmt):
        yield from ((where or "module", old, new) for old, new in _variants(node))
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in UNTOUCHED:
                yield from _changes(child, where)


def _is_alias(node: ast.AST, where: str) -> bool:
    union = isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.BitOr)
    return union and not where


def _variants(node: ast.expr | ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr | ast.stmt]]:  # noqa: PLR0912
    match node:
        case ast.Compare():
            for i, op in enumerate(node.ops):
                new = copy.deepcopy(node)
                new.ops[i] = SWAPS[type(op)]()  # type: ignore[call-overload]
                yield node, new
        case ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op) if type(op) in SWAPS:
            yield node, _with(node, op=SWAPS[type(op)]())
        case ast.Constant(value=bool(value)):
            yield node, ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield node, ast.Constant(value + 1)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node, node.operand
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            yield test, ast.UnaryOp(ast.Not(), test)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield node, ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()):
            yield node, ast.Pass()
        case ast.Call(func=ast.Name(id=name)) if name in NAMES:
            yield node, _with(node, func=ast.Name(NAMES[name]))
        case ast.Call(func=ast.Attribute(attr=name)) if name in NAMES:
            yield node, _with(node, func=_with(node.func, attr=NAMES[name]))
        case ast.Subscript(slice=ast.Slice() as cut):
            for end in ("lower", "upper"):
                if (at := getattr(cut, end)) is not None and not isinstance(at, ast.Constant):
                    shifted = _with(cut, **{end: ast.BinOp(at, ast.Add(), ast.Constant(1))})
                    yield node, _with(node, slice=shifted)


def _with(node: ast.AST, **changes: object) -> ast.expr | ast.stmt:
    new = copy.copy(node)
    for name, value in changes.items():
        setattr(new, name, value)
    return new  # type: ignore[return-value]
