"""Attention over a paged cache, as an attention implementation of transformers that is on only during a step.

All tokens of a step lie in one row, so every product with the weights serves all sequences at once; only attention
itself is done per sequence, on the keys and values that its block table names. Written against transformers 5.24: an
implementation is a function registered by name and looked up through ``config._attn_implementation`` in every layer;
one whose name has no mask function gets no mask; what a caller adds to ``model(...)`` reaches it by keyword.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

from lib.paged_cache.storage import PagedStorage

NAME = "paged_by_block_table"
CHANGES_ATTENTION = ("softcap", "s_aux", "position_bias", "sliding_window")  # what other families hand over


@dataclass(frozen=True)
class Span:
    """One sequence's part of the row: n tokens from ``start``, its first at ``first``; slots: (length,) of its keys.

    length is first + n, the sequence up to and with these tokens. writes: padding, which no later step reads, does not.
    """

    start: int
    n: int
    first: int
    slots: Tensor
    writes: bool = True

    def mask(self, groups: int) -> Tensor | None:
        """(groups · n, length): True where a query may look; None for one token, which may look everywhere."""
        if self.n == 1:
            return None
        keys = torch.arange(len(self.slots), device=self.slots.device)
        queries = torch.arange(self.first, self.first + self.n, device=self.slots.device)
        return (keys <= queries[:, None]).repeat(groups, 1)


class PackedRow:
    """A step's row as attention needs it: the spans, the slots to write, and all slots to read one after another."""

    def __init__(self, storage: PagedStorage, spans: Sequence[Span], groups: int) -> None:
        self.storage, self.spans = storage, spans
        self.masks = [span.mask(groups) for span in spans]  # the same in all layers
        self.lengths = [len(span.slots) for span in spans]
        self.read_slots = torch.cat([span.slots for span in spans])
        writing = [span for span in spans if span.writes]
        self.write_slots = torch.cat([span.slots[span.first :] for span in writing]) if writing else None
        rows = [torch.arange(span.start, span.start + span.n) for span in writing]
        self.written = None if len(writing) == len(spans) else torch.cat(rows) if rows else None

    def update(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Store the row's keys and values (kv_heads, T, head_dim); returns those of each sequence, from its start."""
        if self.write_slots is not None:
            if self.written is not None:
                index = self.written.to(keys.device)
                keys, values = keys.index_select(1, index), values.index_select(1, index)
            self.storage.write(layer, self.write_slots, keys, values)
        all_keys, all_values = self.storage.read(layer, self.read_slots)
        return torch.split(all_keys, self.lengths, 1), torch.split(all_values, self.lengths, 1)


def paged_attention(  # noqa: PLR0913 (transformers' signature)
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    packed: PackedRow,
    scaling: float | None = None,
    **other: Any,
) -> tuple[Tensor, None]:
    """query (1, heads, T, head_dim), key and value (1, kv_heads, T, head_dim) → (1, T, heads, head_dim).

    The query heads of a group are laid one after another along the queries of their key-value head, so keys are not
    repeated. Raises ValueError when the layer asks for something that this attention does not do.
    """
    asked = [name for name in CHANGES_ATTENTION if other.get(name) is not None]
    if asked or attention_mask is not None:
        raise ValueError(f"{type(module).__name__} wants {asked or 'a mask'}, which paged attention does not do")
    keys, values = packed.update(module.layer_idx, key[0], value[0])
    kv_heads, head_dim = key.shape[1], query.shape[3]
    out = query.new_empty(1, query.shape[2], query.shape[1], value.shape[3])
    for span, mask, k, v in zip(packed.spans, packed.masks, keys, values, strict=True):
        rows = slice(span.start, span.start + span.n)
        grouped = query[:, :, rows].reshape(1, kv_heads, -1, head_dim)
        found = scaled_dot_product_attention(grouped, k[None], v[None], attn_mask=mask, scale=scaling)
        out[:, rows] = found.view(1, query.shape[1], span.n, -1).transpose(1, 2)
    return out, None


@contextmanager
def paged(model: PreTrainedModel) -> Iterator[None]:
    """Within: the model's layers attend through ``paged_attention``. Afterwards, error or not, as they did before.

    The model is changed for everybody while it lasts; not for use from two threads at once.
    """
    AttentionInterface.register(NAME, paged_attention)
    config = model.config.get_text_config()
    before = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before


@torch.no_grad()
def packed_forward(model: PreTrainedModel, ids: Tensor, positions: Tensor, packed: PackedRow, wanted: Tensor) -> Tensor:
    """One pass over a row of tokens, ids and positions (T,); returns the logits of the wanted indices, (n, vocab)."""
    with paged(model):
        out = model(
            ids[None], position_ids=positions[None], use_cache=False, logits_to_keep=wanted, packed=packed
        )  # fmt: skip
    logits: Tensor = out.logits[0]
    return logits
