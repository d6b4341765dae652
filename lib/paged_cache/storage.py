"""The tensors behind block tables: keys and values of every layer, by physical slot.

One tensor for the keys and one for the values, (layers, kv_heads, slots, head_dim), allocated once; block b is the
slots b · block_size … (b + 1) · block_size - 1. Reading gathers the slots of a sequence into its logical order, so the
attention that follows is the same arithmetic on the same numbers as without a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from lib.cache_bytes import CacheShape

Slots = Sequence[int] | Tensor  # physical slots; an int64 tensor on the storage's device saves a copy per layer


class PagedStorage:
    """`blocks` blocks of `block_size` positions for a model of this shape; all zeros at first.

    Zeros, because a padded read of slots never written must give numbers: a mask does not stop a NaN.
    Raises ValueError for a block size or number of blocks below one.
    """

    def __init__(
        self, shape: CacheShape, blocks: int, block_size: int, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        if min(blocks, block_size) < 1:
            raise ValueError(f"a storage of {blocks} blocks of {block_size} positions")
        self.shape, self.blocks, self.block_size = shape, blocks, block_size
        size = (shape.layers, shape.kv_heads, blocks * block_size, shape.head_dim)
        self._keys, self._values = (torch.zeros(size, dtype=dtype, device=device) for _ in range(2))

    @property
    def nbytes(self) -> int:
        """Bytes of the storages behind both tensors: blocks · block_size · bytes per token."""
        return sum(tensor.untyped_storage().nbytes() for tensor in (self._keys, self._values))

    def write(self, layer: int, slots: Slots, keys: Tensor, values: Tensor) -> None:
        """Put n positions of a layer into n slots; keys and values (kv_heads, n, head_dim), of the storage's dtype.

        Raises ValueError for other shapes or dtypes, for a layer that is not there, and on a CPU for a slot outside
        (elsewhere torch fails when the kernel runs: looking here would wait for the device in every layer).
        """
        self._must_have(layer)
        where = self._tensor(slots)
        expected = (self.shape.kv_heads, len(where), self.shape.head_dim)
        for given in (keys, values):
            if given.shape != expected or given.dtype != self._keys.dtype:
                raise ValueError(
                    f"a write of {tuple(given.shape)} {given.dtype} where {expected} {self._keys.dtype} belongs"
                )
        self._keys[layer].index_copy_(1, where, keys)
        self._values[layer].index_copy_(1, where, values)

    def read(self, layer: int, slots: Slots) -> tuple[Tensor, Tensor]:
        """Keys and values of these slots in this order, each (kv_heads, n, head_dim), contiguous copies.

        Raises ValueError as `write` does for layers and slots.
        """
        self._must_have(layer)
        where = self._tensor(slots)
        return self._keys[layer].index_select(1, where), self._values[layer].index_select(1, where)

    def copy(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Copy whole blocks (source, target) in all layers, one pair after the other.

        Raises ValueError for a number that is no block, before anything is copied.
        """
        pairs = list(pairs)
        for block in (block for pair in pairs for block in pair):
            if not 0 <= block < self.blocks:
                raise ValueError(f"block {block} of a storage of {self.blocks}")
        for source, target in pairs:
            for tensor in (self._keys, self._values):
                blocks = tensor.view(*tensor.shape[:2], self.blocks, self.block_size, tensor.shape[3])
                blocks[:, :, target] = blocks[:, :, source]

    def _must_have(self, layer: int) -> None:
        if not 0 <= layer < self.shape.layers:
            raise ValueError(f"layer {layer} of a storage of {self.shape.layers}")

    def _tensor(self, slots: Slots) -> Tensor:
        where = torch.as_tensor(slots, dtype=torch.int64, device=self._keys.device)
        if where.device.type == "cpu" and len(where):
            lowest, highest = (int(end) for end in where.aminmax())
            if lowest < 0 or highest >= self.blocks * self.block_size:
                raise ValueError(f"slots {lowest} to {highest} of a storage of {self.blocks * self.block_size}")
        return where
