"""One forward pass for a step's work: the tokens of all sequences in one row, each with its own positions and slots."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lib.paged_cache.storage import PagedStorage
from lib.paged_cache.tables import PagedCache
from lib.serving.attention import PackedRow, Span, packed_forward
from lib.serving.planner import Work
from lib.serving.requests import Record


class Pass:
    """Runs works on a model; keys and values go to the storage, by the cache's block tables."""

    def __init__(self, model: PreTrainedModel, cache: PagedCache, storage: PagedStorage) -> None:
        self.model, self.cache, self.storage = model, cache, storage
        self._groups = model.config.get_text_config().num_attention_heads // storage.shape.kv_heads

    def logits(self, works: Sequence[Work], padding: Sequence[Record]) -> Tensor:
        """(n, vocab): a row for each work that ends its text, in order.

        padding: requests for which a token more is computed, logits and all, and dropped.
        """
        spans, ids, positions, wanted = list[Span](), list[int](), list[int](), list[int]()
        for work in works:
            slots = self.slots(work.record, work.first + work.count)
            spans.append(Span(len(ids), work.count, work.first, slots))
            ids += work.tokens
            positions += range(work.first, work.first + work.count)
            wanted += [len(ids) - 1] if work.last else []
        useful = len(wanted)
        for record in padding:
            length = max(record.cached, 1)
            spans.append(Span(len(ids), 1, length - 1, self.slots(record, length), writes=False))
            ids.append(record.text[-1])
            positions.append(length - 1)
            wanted.append(len(ids) - 1)
        row, places, kept = (
            torch.tensor(column, dtype=torch.int64, device=self.model.device) for column in (ids, positions, wanted)
        )
        packed = PackedRow(self.storage, spans, self._groups)
        return packed_forward(self.model, row, places, packed, kept)[:useful]

    def slots(self, record: Record, length: int) -> Tensor:
        """(length,) physical slots of a sequence's first positions, through its block table."""
        size, device = self.cache.block_size, self.model.device
        table = self.cache.table(record.request.id) if record.started else (0,)  # padding whose blocks were taken
        blocks = torch.tensor(table[: -(-length // size)], device=device)
        return (blocks[:, None] * size + torch.arange(size, device=device)).flatten()[:length]
