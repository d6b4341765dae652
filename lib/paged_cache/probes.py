"""One sequence scattered over a paged storage: is it read back in order, and attended to as if it lay in one piece?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from lib.cache_bytes import CacheShape
from lib.paged_cache.storage import PagedStorage

SPARE = 3  # blocks that belong to nobody, so that a sequence never fills the storage


@dataclass(frozen=True)
class Scattered:
    """equal: bit for bit. attention_gap: largest difference. neighbours: blocks followed by their successor in memory.

    swapped_equal: whether a table with two blocks exchanged would have read the same (it must not).
    """

    equal: bool
    attention_gap: float
    blocks: int
    neighbours: int
    swapped_equal: bool


def scattered(shape: CacheShape, positions: int, block_size: int, seed: int) -> Scattered:
    """Write random keys and values in the shape's last layer through a shuffled block table; read and attend."""
    random = torch.Generator().manual_seed(seed)
    blocks = -(-positions // block_size)
    table = torch.randperm(blocks + SPARE, generator=random)[:blocks]
    storage = PagedStorage(shape, blocks + SPARE, block_size, torch.float32, torch.device("cpu"))
    keys, values, query = (
        torch.randn(shape.kv_heads, rows, shape.head_dim, generator=random) for rows in (positions, positions, 1)
    )
    layer = shape.layers - 1
    slots = _slots(table, positions, block_size)
    storage.write(layer, slots, keys, values)
    read = storage.read(layer, slots)
    whole, paged = (scaled_dot_product_attention(query, k, v) for k, v in ((keys, values), read))
    swapped = storage.read(layer, _slots(table.flip(0), positions, block_size))
    return Scattered(
        equal=all(torch.equal(a, b) for a, b in zip(read, (keys, values), strict=True)),
        attention_gap=float((whole - paged).abs().max()),
        blocks=blocks,
        neighbours=sum(b == a + 1 for a, b in pairwise(table.tolist())),
        swapped_equal=blocks > 1 and torch.equal(swapped[0], keys),
    )


def _slots(table: Tensor, positions: int, block_size: int) -> Tensor:
    return (table[:, None] * block_size + torch.arange(block_size)).flatten()[:positions]
