"""A model whose projections are, for a while, what a quantization scheme makes of them.

The reconstructions are written to buffers of their own, which every scheme reuses, and the parameters are pointed at
them: the original numbers are never written to, so putting them back is exact by construction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from lib.parallel import map_on_cores
from lib.quantization.absmax import NotFiniteError
from lib.quantization.errors import pieces
from lib.quantization.schemes import Scheme
from lib.weight_stats import projection_weights


class WeightSwap:
    """Quantizes the projections of one model in place of the originals, one scheme after the other.

    Holds one fp32 buffer per projection (1.43 GB for the chapter's architecture) from the first scheme on.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._originals = projection_weights(model)
        self._buffers: dict[str, Tensor] = {}

    @contextmanager
    def quantized(self, scheme: Scheme | None) -> Iterator[nn.Module]:
        """The model with every projection replaced by its reconstruction; None leaves it as it is.

        The originals are back when the block ends, however it ends. Raises NotFiniteError, naming the matrix.
        """
        if scheme is None:
            yield self.model
            return
        self._rebuild(scheme)
        parameters = dict(self.model.named_parameters())
        try:
            for name in self._originals:
                parameters[f"{name}.weight"].data = self._buffers[name]
            yield self.model
        finally:
            for name, original in self._originals.items():
                parameters[f"{name}.weight"].data = original

    def _rebuild(self, scheme: Scheme) -> None:
        refuse_non_finite(self._originals)
        for name, original in self._originals.items():
            if name not in self._buffers:
                self._buffers[name] = torch.empty_like(original, memory_format=torch.contiguous_format)
        pairs = [(original, self._buffers[name]) for name, original in self._originals.items()]
        map_on_cores(partial(_reconstruct_into, scheme), pairs)


def refuse_non_finite(weights: Mapping[str, Tensor]) -> None:
    """Raise NotFiniteError for the first matrix with a NaN or an infinity; a sum is finite only if every term is."""
    for name, matrix in weights.items():
        if not torch.isfinite(matrix.sum()) and not torch.isfinite(matrix).all():
            raise NotFiniteError(f"{name}: a weight is not finite, so no scale fits it")


def _reconstruct_into(scheme: Scheme, pair: tuple[Tensor, Tensor]) -> None:
    """Write a scheme's reconstruction of a matrix (rows, columns) to a buffer of its shape, piece by piece."""
    weights, out = pair
    if isinstance(scheme.group, int) and weights.shape[1] % scheme.group:
        out.copy_(scheme.reconstruct(weights))  # the last group of each row is padded: pieces are not the matrix
        return
    rows = out.view(-1, scheme.group if isinstance(scheme.group, int) else weights.shape[1])
    start = 0
    for groups, quantized in pieces(scheme, weights):
        rows[start : start + len(groups)] = scheme.dequantize(quantized)
        start += len(groups)
