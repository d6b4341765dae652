"""A model whose projections are, for a while, what a quantization scheme makes of them.

The reconstructions are written to buffers of their own, which every scheme reuses, and the parameters are pointed at
them: the original numbers are never written to, so putting them back is exact by construction.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from lib.parallel import map_on_cores
from lib.quantization.absmax import NotFiniteError
from lib.quantization.errors import rebuild
from lib.quantization.schemes import Scheme
from lib.weight_stats import projection_weights


class WeightSwap:
    """Quantizes the projections of one model in place of the originals, one scheme after the other.

    Holds one fp32 buffer per projection (1.43 GB for the chapter's architecture) from the first scheme on. errors: of
    every scheme so far, what it left in each matrix (lib/quantization/errors.py).
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._originals = projection_weights(model)
        self._buffers: dict[str, Tensor] = {}
        self.errors: dict[Scheme, dict[str, float]] = {}

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
        for name, original in self._originals.items():
            if name not in self._buffers:
                self._buffers[name] = torch.empty_like(original, memory_format=torch.contiguous_format)
        errors = map_on_cores(partial(self._rebuild_one, scheme), self._originals)
        self.errors[scheme] = dict(zip(self._originals, errors, strict=True))

    def _rebuild_one(self, scheme: Scheme, name: str) -> float:
        try:
            return rebuild(scheme, self._originals[name], self._buffers[name])
        except NotFiniteError:  # every scheme looks for the largest magnitude, or the range, and cannot miss it
            raise NotFiniteError(f"{name}: a weight is not finite, so no scale fits it") from None
