"""How often a pass hands each weight matrix to an operation, seen at torch's dispatcher.

What a kernel does inside one operation is not seen: it may fetch a block of a matrix more than once. But an operation
per request, or a copy of the weights in between, is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Looking up a few rows of an embedding is not reading the matrix.
READS_ROWS = frozenset({"aten.embedding.default", "aten.index_select.default"})


def weight_reads(model: nn.Module, program: Callable[[], object]) -> dict[str, int]:
    """By parameter name, how many operations of the program took the whole matrix as an input; shared ones count once.

    Only parameters with two dimensions are listed; one that no operation reads has 0.
    """
    matrices = {p.untyped_storage()._cdata: name for name, p in model.named_parameters() if p.ndim == 2}
    with torch.no_grad(), _Reads(matrices) as reads:
        program()
    return {name: reads.counts[name] for name in matrices.values()}


class _Reads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, matrices: dict[int, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._matrices = matrices
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        inputs = _storages((args, kwargs))
        if str(func) not in READS_ROWS and not _storages(result) <= inputs:  # what only gives a view reads nothing
            self.counts.update(self._matrices[key] for key in inputs & self._matrices.keys())
        return result


def _storages(tree: object) -> set[int]:
    return {leaf.untyped_storage()._cdata for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)}
