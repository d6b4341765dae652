"""Paged storage against contiguous tensors: the same bytes, the same attention, the same logits."""

import random

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import DynamicCache, PreTrainedModel, Qwen2Config

from lib.cache_bytes import CacheShape, cache_shape
from lib.decoding import decode_step, layer_tensors, prefill, random_tokens
from lib.paged_cache.storage import PagedStorage
from lib.paged_cache.tables import PagedCache
from lib.slim_models import SLIM_VOCABULARY, cache_only

SHAPE = CacheShape(layers=3, kv_heads=2, head_dim=8)
QUERY_HEADS = 6  # three for each key-value head
BLOCK_SIZES = [1, 7, 16]
NAMES = ("a", "b", "c")
LENGTHS = {"a": 37, "b": 16, "c": 1}
TINY = Qwen2Config(hidden_size=32, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, head_dim=8)
# Softmax sums and weighted sums of at most 37 terms of order one in another order: 37 · 2⁻²⁴ ≈ 2.2e-6 each.
ANOTHER_ORDER = 1e-5


def storage_of(block_size: int, dtype: torch.dtype = torch.float32) -> PagedStorage:
    return PagedStorage(SHAPE, 64, block_size, dtype, "cpu")


def scattered(block_size: int, lengths: dict[str, int], seed: int = 0) -> PagedCache:
    """Sequences that grew by turns, in a pool that others have left in disorder."""
    rng, cache = random.Random(seed), PagedCache(64, block_size, sharing=False)  # noqa: S311 (not cryptography)
    for passer_by in range(20):
        cache.start(passer_by, [0])
        cache.reserve(passer_by, block_size)
    for name in lengths:
        cache.start(name, [0])
    for passer_by in rng.sample(range(20), 20):
        cache.release(passer_by)
    for name in rng.sample([name for name, length in lengths.items() for _ in range(length)], sum(lengths.values())):
        cache.reserve(name, 1)
        cache.commit(name, [0])
    return cache


def slots_of(cache: PagedCache, name: str) -> list[int]:
    return cache.slots(name, 0, cache.length(name))


def contiguous(length: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """(K, V) of every layer, each (kv_heads, length, head_dim)."""
    generator = torch.Generator().manual_seed(seed)
    size = (SHAPE.layers, 2, SHAPE.kv_heads, length, SHAPE.head_dim)
    return [(keys, values) for keys, values in torch.randn(size, generator=generator)]


def attention(keys: Tensor, values: Tensor, queries: int) -> Tensor:
    """(1, QUERY_HEADS, queries, head_dim): the last `queries` positions, each up to itself, seeded queries."""
    size = (1, QUERY_HEADS, queries, SHAPE.head_dim)
    asked, length = torch.randn(size, generator=torch.Generator().manual_seed(9)), keys.shape[1]
    mask = torch.ones(queries, length, dtype=torch.bool).tril(length - queries)
    return scaled_dot_product_attention(asked, keys[None], values[None], attn_mask=mask, enable_gqa=True)


def filled(block_size: int) -> tuple[PagedStorage, PagedCache, dict[str, list[tuple[Tensor, Tensor]]]]:
    """Three sequences written position after position by turns, and the same as contiguous tensors."""
    storage, cache = storage_of(block_size), scattered(block_size, LENGTHS, seed=block_size)
    whole = {name: contiguous(LENGTHS[name], seed) for seed, name in enumerate(NAMES)}
    for name, layers in whole.items():
        for layer, (keys, values) in enumerate(layers):
            storage.write(layer, slots_of(cache, name), keys, values)
    return storage, cache, whole


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
@pytest.mark.parametrize("queries", [1, 12])
def test_attention_through_the_table_against_contiguous_attention(block_size: int, queries: int) -> None:
    storage, cache, whole = filled(block_size)
    assert slots_of(cache, "a") != sorted(slots_of(cache, "a"))  # really scattered
    for name in ("a", "b"):
        for layer, (keys, values) in enumerate(whole[name]):
            ours = storage.read(layer, slots_of(cache, name))
            assert torch.equal(ours[0], keys) and torch.equal(ours[1], values)
            assert torch.equal(attention(*ours, queries), attention(keys, values, queries))


def swapped(cache: PagedCache, name: str, block_size: int) -> list[int]:
    """The slots through a table whose first two blocks are exchanged."""
    slots = slots_of(cache, name)
    return slots[block_size : 2 * block_size] + slots[:block_size] + slots[2 * block_size :]


@pytest.mark.parametrize("block_size", [7, 16])
def test_two_blocks_exchanged_are_noticed_by_what_is_read_and_by_causal_attention(block_size: int) -> None:
    storage, cache, whole = filled(block_size)
    keys, values = whole["a"][0]
    wrong = storage.read(0, swapped(cache, "a", block_size))
    assert not torch.equal(wrong[0], keys) and not torch.equal(wrong[1], values)
    queries = LENGTHS["a"]  # every position asks, so the exchange moves keys past the mask
    assert (attention(*wrong, queries) - attention(keys, values, queries)).abs().max() > 0.1


@pytest.mark.parametrize("block_size", [7, 16])
def test_one_query_cannot_notice_two_blocks_exchanged(block_size: int) -> None:
    """Why outputs are no proof of a table: attention of one query sums over a set, and the order is in the keys."""
    storage, cache, whole = filled(block_size)
    wrong = attention(*storage.read(0, swapped(cache, "a", block_size)), 1)
    assert (wrong - attention(*whole["a"][0], 1)).abs().max() < ANOTHER_ORDER


@pytest.mark.parametrize("block_size", [7, 16])
def test_another_sequences_block_is_noticed_by_one_query(block_size: int) -> None:
    storage, cache, whole = filled(block_size)
    slots = slots_of(cache, "a")
    slots[:block_size] = cache.slots("b", 0, min(block_size, LENGTHS["b"]))
    assert (attention(*storage.read(0, slots), 1) - attention(*whole["a"][0], 1)).abs().max() > 0.01


def store(storage: PagedStorage, slots: list[int], layers: list[tuple[Tensor, Tensor]]) -> None:
    for layer, (keys, values) in enumerate(layers):
        storage.write(layer, slots, keys[0], values[0])


def rebuilt(storage: PagedStorage, slots: list[int]) -> DynamicCache:
    cache = DynamicCache()
    for layer in range(storage.shape.layers):
        keys, values = storage.read(layer, slots)
        cache.update(keys[None], values[None], layer)
    return cache


def tiny_model() -> PreTrainedModel:
    return cache_only(TINY)


@pytest.mark.parametrize("block_size", BLOCK_SIZES)
def test_a_models_next_logits_through_the_table_against_its_own_cache(block_size: int) -> None:
    model = tiny_model()
    storage = PagedStorage(cache_shape(TINY), 64, block_size, torch.float32, "cpu")
    tables = scattered(block_size, LENGTHS)
    own = {name: prefill(model, random_tokens(LENGTHS[name], SLIM_VOCABULARY, seed=n)) for n, name in enumerate(NAMES)}
    for name in NAMES:
        store(storage, slots_of(tables, name), layer_tensors(own[name].cache))
    for name in NAMES:
        step = random_tokens(1, SLIM_VOCABULARY, seed=5)
        paged = decode_step(model, step, rebuilt(storage, slots_of(tables, name)))
        assert torch.equal(paged, decode_step(model, step, own[name].cache))


def test_a_fork_goes_on_from_a_copy_and_leaves_the_original_alone() -> None:
    storage, tables, block_size = storage_of(4), PagedCache(64, 4), 4
    tables.start("a", [0])
    tables.reserve("a", 6)
    whole = contiguous(6, seed=0)
    for layer, (keys, values) in enumerate(whole):
        storage.write(layer, tables.slots("a", 0, 6), keys, values)
    tables.commit("a", [0] * 6)
    tables.fork("a", "b")
    storage.copy(tables.reserve("b", 1))
    for layer in range(SHAPE.layers):
        storage.write(layer, tables.slots("b", 6, 1), torch.ones(2, 1, 8), torch.ones(2, 1, 8))
    assert tables.table("a")[:1] == tables.table("b")[:1] and tables.table("a")[1] != tables.table("b")[1]
    for name in ("a", "b"):
        for layer, (keys, values) in enumerate(whole):
            ours = storage.read(layer, tables.slots(name, 0, 6))
            assert torch.equal(ours[0], keys) and torch.equal(ours[1], values)
    assert not storage.read(0, [tables.table("a")[1] * block_size + 2])[0].any()  # never written


def test_a_fork_without_the_copy_reads_what_was_never_written() -> None:
    storage, tables = storage_of(4), PagedCache(64, 4)
    tables.start("a", [0])
    tables.reserve("a", 6)
    storage.write(0, tables.slots("a", 0, 6), torch.ones(2, 6, 8), torch.ones(2, 6, 8))
    tables.commit("a", [0] * 6)
    tables.fork("a", "b")
    tables.reserve("b", 1)
    assert not storage.read(0, tables.slots("b", 4, 2))[0].any()


def test_copies_run_one_after_the_other() -> None:
    storage = storage_of(1)
    storage.write(1, [0], torch.ones(2, 1, 8), torch.ones(2, 1, 8))
    storage.copy([(0, 1), (2, 0)])
    assert storage.read(1, [1])[0].all() and not storage.read(1, [0])[0].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("block_size", BLOCK_SIZES)
def test_bytes_against_the_formula(block_size: int, dtype: torch.dtype) -> None:
    expected = 64 * block_size * SHAPE.bytes_per_token(dtype.itemsize)
    assert storage_of(block_size, dtype).nbytes == expected


def test_slots_may_be_a_tensor() -> None:
    storage = storage_of(4)
    storage.write(0, torch.tensor([9, 3]), *contiguous(2, seed=1)[0])
    assert torch.equal(storage.read(0, torch.tensor([3, 9]))[0], storage.read(0, [3, 9])[0])
    assert torch.equal(storage.read(0, [9, 3])[1], contiguous(2, seed=1)[0][1])
    assert storage.read(0, [])[0].shape == (2, 0, 8)


REFUSED = {
    "blocks": (lambda _: PagedStorage(SHAPE, 0, 4, torch.float32, "cpu"), "0 blocks of 4"),
    "block size": (lambda _: PagedStorage(SHAPE, 4, 0, torch.float32, "cpu"), "4 blocks of 0"),
    "layer": (lambda s: s.read(3, [0]), "layer 3 of a storage of 3"),
    "layer before the first": (lambda s: s.write(-1, [0], torch.ones(2, 1, 8), torch.ones(2, 1, 8)), "layer -1"),
    "slot": (lambda s: s.read(0, [1, 256]), "slots 1 to 256 of a storage of 256"),
    "slot before the first": (lambda s: s.read(0, torch.tensor([-1])), "slots -1"),
    "positions": (lambda s: s.write(0, [0, 1], torch.ones(2, 1, 8), torch.ones(2, 1, 8)), r"\(2, 1, 8\)"),
    "heads": (lambda s: s.write(0, [0], torch.ones(6, 1, 8), torch.ones(6, 1, 8)), r"\(6, 1, 8\)"),
    "dtype": (lambda s: s.write(0, [0], torch.ones(2, 1, 8).half(), torch.ones(2, 1, 8)), "float16"),
    "values": (lambda s: s.write(0, [0], torch.ones(2, 1, 8), torch.ones(2, 1, 4)), r"\(2, 1, 4\)"),
    "block": (lambda s: s.copy([(0, 1), (64, 2)]), "block 64 of a storage of 64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_named_and_writes_nothing(case: str) -> None:
    storage = storage_of(4)
    storage.write(2, [0], torch.ones(2, 1, 8), torch.ones(2, 1, 8))
    action, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        action(storage)
    assert sum(int(storage.read(layer, list(range(256)))[0].sum()) for layer in range(3)) == 16
