"""How many bytes a key-value cache holds: the formula, and the storage that really backs the tensors.

The formula is 2 (key and value) × layers × key-value heads × head dimension × bytes per element, per token. It
counts positions that hold a token. What a program allocates can be more: padding in a batch of unequal lengths,
slots reserved in advance, a view that keeps a longer tensor alive. Both are measured here, and never confused.

No torch at import time, so that plain arithmetic starts at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lib.unmeasurable import Unmeasurable

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers.cache_utils import Cache

KEY_AND_VALUE = 2


class UnknownCacheShape(Unmeasurable):
    """The configuration's cache is not plain keys and values per head, so the formula does not describe it."""


@dataclass(frozen=True)
class CacheShape:
    """What the formula needs of an architecture."""

    layers: int
    kv_heads: int
    head_dim: int

    def bytes_per_token(self, dtype_bytes: int) -> int:
        """Bytes that one resident token costs."""
        return kv_bytes_per_token(self.layers, self.kv_heads, self.head_dim, dtype_bytes)


@dataclass(frozen=True)
class Occupancy:
    """Bytes allocated for a cache, and the part of them that holds real tokens."""

    allocated_bytes: int
    used_bytes: int

    @property
    def wasted_share(self) -> float:
        """The fraction of the allocation that holds padding or nothing."""
        return 1 - self.used_bytes / self.allocated_bytes


def kv_bytes_per_token(layers: int, kv_heads: int, head_dim: int, dtype_bytes: int) -> int:
    """Bytes per token of context: 2 · L · H_kv · d · bytes. Raises ValueError unless all are positive."""
    if min(layers, kv_heads, head_dim, dtype_bytes) < 1:
        raise ValueError(f"a cache of {layers} layers, {kv_heads} heads, {head_dim} dimensions, {dtype_bytes} bytes")
    return KEY_AND_VALUE * layers * kv_heads * head_dim * dtype_bytes


def cache_shape(config: Any) -> CacheShape:
    """Read the shape off a transformers configuration.

    The head dimension is the explicit one where there is one (it need not be hidden / heads), and key-value heads
    default to query heads. Raises UnknownCacheShape for a compressed (multi-head latent) cache.
    """
    text = config.get_text_config()
    if getattr(text, "kv_lora_rank", None):
        raise UnknownCacheShape(f"{text.model_type} caches a latent vector per token, not keys and values per head")
    heads = text.num_attention_heads
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // heads
    return CacheShape(text.num_hidden_layers, getattr(text, "num_key_value_heads", None) or heads, head_dim)


def storage_bytes(cache: Cache) -> int:
    """Bytes of the distinct storages behind a cache's keys and values.

    A view counts with all of the storage it keeps alive, and a storage that several tensors share counts once.
    A layer's own bookkeeping (positions, window lengths; a few bytes) is left out. Raises ValueError on the meta
    device, where nothing is stored.
    """
    sizes: dict[tuple[torch.device, int], int] = {}
    for tensor in _tensors(cache):
        if tensor.is_meta:
            raise ValueError("a meta tensor has no storage to count")
        storage = tensor.untyped_storage()
        sizes[tensor.device, storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())


def view_bytes(cache: Cache) -> int:
    """Bytes of the keys and values as seen: elements × element size, whatever storage lies behind them."""
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors(cache))


def tensor_shapes(cache: Cache) -> frozenset[tuple[int, ...]]:
    """The distinct (B, H_kv, n, d) shapes of all keys and values."""
    return frozenset(tuple(tensor.shape) for tensor in _tensors(cache))


def occupancy(cache: Cache, lengths: Sequence[int], bytes_per_token: int) -> Occupancy:
    """Set the bytes allocated for a batch against what its real tokens need; `lengths`: real tokens per row."""
    return Occupancy(storage_bytes(cache), sum(lengths) * bytes_per_token)


def filled_cache(shape: CacheShape, batch: int, tokens: int, dtype: torch.dtype) -> Cache:
    """A growing cache that really holds `batch` rows of `tokens` positions, written by no model: zeros."""
    import torch
    from transformers import DynamicCache

    cache = DynamicCache()
    for layer in range(shape.layers):
        block = torch.zeros(batch, shape.kv_heads, tokens, shape.head_dim, dtype=dtype)
        cache.update(block, block, layer)
    return cache


def _tensors(cache: Cache) -> Iterator[Tensor]:
    from lib.decoding import layer_tensors  # imports torch: not before a real cache is at hand

    for keys, values in layer_tensors(cache):
        yield keys
        yield values
