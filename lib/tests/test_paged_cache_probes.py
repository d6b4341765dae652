"""The probe of a scattered sequence against ceilings and tables written out, and on storages that are wrong."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from lib.cache_bytes import CacheShape
from lib.paged_cache import probes
from lib.paged_cache.probes import Scattered, scattered
from lib.paged_cache.storage import PagedStorage

SHAPE = CacheShape(layers=3, kv_heads=2, head_dim=8)
CASES = [(n, size) for size in (1, 7, 16) for n in sorted({1, size, size + 1, 3 * size, 3 * size + 1, 50})]
# One query over 50 keys of 8 dimensions near 1: an output is a mean of values below 5, whose weights carry 8 products
# and whose sum 50 additions of 2^-24 each.
ANOTHER_ORDER = 5 * (8 + 50) * 2.0**-24


@pytest.mark.parametrize(("positions", "block_size"), CASES)
def test_the_storage_against_contiguous_keys_and_values(positions: int, block_size: int) -> None:
    found = scattered(SHAPE, positions, block_size, seed=positions)
    assert found.equal and found.attention_gap == 0 and not found.swapped_equal
    assert found.blocks == -(-positions // block_size)


class Remembers(PagedStorage):
    """The storage itself; the slots that were written stay visible."""

    written: torch.Tensor

    def write(self, layer, slots, keys, values):
        Remembers.written = slots
        super().write(layer, slots, keys, values)


@pytest.mark.parametrize("seed", range(4))
def test_neighbours_against_the_slots_that_were_written(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(probes, "PagedStorage", Remembers)
    found = scattered(SHAPE, 40, 4, seed)
    table = [slot // 4 for slot in Remembers.written.tolist()[::4]]
    assert len(set(table)) == found.blocks == 10 and max(table) < 10 + probes.SPARE
    assert found.neighbours == sum(b == a + 1 for a, b in pairwise(table)) < 9


class LosesTheOffset(PagedStorage):
    """Every position of a block is read from its first slot."""

    def read(self, layer, slots):
        return super().read(layer, torch.as_tensor(slots) // self.block_size * self.block_size)


class ReadsInMemoryOrder(PagedStorage):
    """The table's blocks, but in the order in which they lie in memory."""

    def read(self, layer, slots):
        return super().read(layer, torch.as_tensor(slots).sort().values)


class WritesOneFurther(PagedStorage):
    """The offset is one too high, around the end of a block."""

    def write(self, layer, slots, keys, values):
        shifted = slots // self.block_size * self.block_size + (slots + 1) % self.block_size
        super().write(layer, shifted, keys, values)


class KeysForValues(PagedStorage):
    def read(self, layer, slots):
        keys, _ = super().read(layer, slots)
        return keys, keys


class AnotherLayer(PagedStorage):
    def read(self, layer, slots):
        return super().read(layer - 1, slots)


@pytest.mark.parametrize("wrong", [LosesTheOffset, ReadsInMemoryOrder, WritesOneFurther, KeysForValues, AnotherLayer])
def test_a_wrong_storage_is_seen(monkeypatch: pytest.MonkeyPatch, wrong: type[PagedStorage]) -> None:
    monkeypatch.setattr(probes, "PagedStorage", wrong)
    assert not scattered(SHAPE, 50, 7, seed=1).equal


@pytest.mark.parametrize("wrong", [LosesTheOffset, KeysForValues, AnotherLayer])
def test_wrong_contents_are_seen_by_attention_too(monkeypatch: pytest.MonkeyPatch, wrong: type[PagedStorage]) -> None:
    monkeypatch.setattr(probes, "PagedStorage", wrong)
    assert scattered(SHAPE, 50, 7, seed=1).attention_gap > 100 * ANOTHER_ORDER


def test_a_wrong_order_is_seen_by_what_is_read_and_not_by_one_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why `equal` is there: one query sums over a set."""
    monkeypatch.setattr(probes, "PagedStorage", ReadsInMemoryOrder)
    found = scattered(SHAPE, 49, 7, seed=1)
    assert not found.equal and found.attention_gap < ANOTHER_ORDER


def test_a_storage_that_reads_what_was_written_last_is_seen_by_the_exchanged_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class IgnoresTheTable(PagedStorage):
        def write(self, layer, slots, keys, values):
            self.kept = keys, values

        def read(self, layer, slots):
            return self.kept

    monkeypatch.setattr(probes, "PagedStorage", IgnoresTheTable)
    found = scattered(SHAPE, 50, 7, seed=1)
    assert found.equal and found.swapped_equal


def test_a_single_block_has_no_order_to_exchange() -> None:
    assert scattered(SHAPE, 5, 16, seed=0) == Scattered(True, 0.0, 1, 0, swapped_equal=False)
