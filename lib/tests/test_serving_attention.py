"""Paged attention in a real model, held against solo runs, and what must fail: planted faults of a paged engine."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from lib.cache_bytes import cache_shape
from lib.decoding import forward
from lib.paged_cache.storage import PagedStorage
from lib.paged_cache.tables import PagedCache
from lib.serving import attention, passes
from lib.serving.attention import PackedRow, Span, packed_forward, paged, paged_attention
from lib.serving.engine import Engine, Settings
from lib.serving.passes import Pass
from lib.serving.requests import Record
from lib.tests.tiny_serving import FAMILIES, NEW, ROUNDING, Script, expected, limited, prompt, tiny

SETTINGS = Settings(slots=3, blocks=60, block_size=4, budget=8)
TOLERANCE = ROUNDING


pytestmark = pytest.mark.usefixtures("one_thread")


def wrong_replies(family: str = "llama") -> int:
    """How many of eight requests do not get the tokens of their solo runs."""
    served, _ = Script(limited(dict.fromkeys(range(8), NEW))).play(family, SETTINGS)
    return sum(not expected(family, r.request).equals(r.tokens, ROUNDING) for r in served.records.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_replies_against_solo_runs(family: str) -> None:
    assert wrong_replies(family) == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_stale_position_ids_are_rejected(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step counts its tokens from the sequence's previous step: decoding goes on at one position for ever."""
    right = passes.packed_forward

    def stale(model: PreTrainedModel, ids: Tensor, positions: Tensor, packed: PackedRow, wanted: Tensor) -> Tensor:
        return right(model, ids, (positions - 1).clamp(min=0), packed, wanted)

    monkeypatch.setattr(passes, "packed_forward", stale)
    assert wrong_replies(family) > 0


def test_the_neighbours_block_table_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a sequence reads of its past lies where an older neighbour of some length has its own."""
    right, seen = Pass.slots, dict[int, Record]()

    def neighbours(self: Pass, record: Record, length: int) -> Tensor:
        slots, other = right(self, record, length), seen.get(record.number - 1)
        seen[record.number] = record
        if other is not None and other.started and other.cached >= length - 1 > 0:
            slots[: length - 1] = right(self, other, length - 1)
        return slots

    monkeypatch.setattr(Pass, "slots", neighbours)
    assert wrong_replies() > 0


def test_a_chunk_without_causal_mask_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Span, "mask", lambda self, groups: None)
    assert wrong_replies() > 0


def test_a_mask_that_forgets_the_earlier_chunks_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual is_causal, which aligns the first query with the first key."""
    right = Span.mask
    monkeypatch.setattr(Span, "mask", lambda self, groups: right(replace(self, first=0), groups))
    assert wrong_replies() > 0


def test_query_heads_mixed_up_between_groups_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six query heads on two key-value heads by turns, instead of three after one another."""
    right = attention.paged_attention

    def mixed(module, query, *args, **kwargs):
        turns = [0, 2, 4, 1, 3, 5]
        out, none = right(module, query[:, turns], *args, **kwargs)
        return out[:, :, [turns.index(i) for i in range(6)]], none

    monkeypatch.setattr(attention, "paged_attention", mixed)
    assert wrong_replies() > 0


class Sequences:
    """Block tables and storage without an engine: one sequence at a time, logits of its last token."""

    def __init__(self, family: str, copies: bool = True) -> None:
        self.model, self.copies = tiny(family), copies
        self.cache = PagedCache(12, 4)
        self.storage = PagedStorage(cache_shape(self.model.config), 12, 4, torch.float32, "cpu")

    def feed(self, name: str, tokens: tuple[int, ...]) -> Tensor:
        before = self.cache.table(name)
        pairs = self.cache.reserve(name, len(tokens))
        if self.copies:
            self.storage.copy(pairs)
        first = self.cache.length(name)
        table = self.cache.table(name)
        slots = self.cache.slots(name, 0, first + len(tokens))
        if not self.copies:  # goes on in the block it had
            moved = {target: source for source, target in pairs}
            slots = [moved.get(slot // 4, slot // 4) * 4 + slot % 4 for slot in slots]
        assert len(table) >= len(before)
        span = Span(0, len(tokens), first, torch.tensor(slots))
        packed = PackedRow(self.storage, [span], _groups(self.model))
        positions = torch.arange(first, first + len(tokens))
        logits = packed_forward(self.model, torch.tensor(tokens), positions, packed, torch.tensor([len(tokens) - 1]))
        self.cache.commit(name, tokens)
        return logits[0]


def _groups(model: PreTrainedModel) -> int:
    return model.config.num_attention_heads // cache_shape(model.config).kv_heads


def forked_logits(family: str, copies: bool) -> tuple[list[Tensor], list[Tensor]]:
    """A prompt of six, forked inside its second block, both continued differently; and the same uncached."""
    sequences, start, left, right = Sequences(family, copies), prompt(6, 1), prompt(5, 2), prompt(5, 3)
    sequences.cache.start("left", start)
    sequences.feed("left", start)
    sequences.cache.fork("left", "right")
    for i in range(4):  # by turns, so that each writes where the other has just read
        sequences.feed("left", left[i : i + 1])
        sequences.feed("right", right[i : i + 1])
    found = [sequences.feed("left", left[4:]), sequences.feed("right", right[4:])]
    whole = [forward(tiny(family), torch.tensor([start + rest])).logits[0, -1] for rest in (left, right)]
    return found, whole


@pytest.mark.parametrize("family", FAMILIES)
def test_forked_sequences_against_uncached_passes(family: str) -> None:
    found, whole = forked_logits(family, copies=True)
    assert all((ours - theirs).abs().max() < TOLERANCE for ours, theirs in zip(found, whole, strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_missing_copy_on_write_is_rejected(family: str) -> None:
    found, whole = forked_logits(family, copies=False)
    assert max((ours - theirs).abs().max() for ours, theirs in zip(found, whole, strict=True)) > 100 * TOLERANCE


def failing_hook(*_: object) -> None:
    raise RuntimeError("a layer failed")


def test_the_models_attention_is_restored_after_an_error() -> None:
    model = tiny("llama")
    before = model.config._attn_implementation
    within = []
    with suppress(KeyError), paged(model):
        within.append(model.config._attn_implementation)
        raise KeyError
    assert within == [attention.NAME] != [before]
    assert model.config._attn_implementation == before


@pytest.mark.parametrize("family", FAMILIES)
def test_a_pass_that_fails_commits_nothing_and_can_be_repeated(family: str) -> None:
    model = tiny(family)
    before = model.config._attn_implementation
    served = Engine(model, SETTINGS)
    for request in limited(dict.fromkeys(range(4), NEW)):
        served.submit(request)
    for _ in range(3):
        served.step()
        hook = model.get_output_embeddings().register_forward_hook(failing_hook)
        for _ in range(3):
            with pytest.raises(RuntimeError, match="a layer failed"):
                served.step()
        hook.remove()
        assert model.config._attn_implementation == before
    served.run(200)
    assert all(expected(family, r.request).equals(r.tokens, ROUNDING) for r in served.records.values())
    assert served.cache.used == 0


def test_the_model_computes_alone_what_it_did_before() -> None:
    ids = torch.tensor([prompt(9, 4)])
    before = forward(tiny("qwen2"), ids).logits
    wrong_replies("qwen2")
    assert torch.equal(forward(tiny("qwen2"), ids).logits, before)


@pytest.mark.parametrize("extra", [{"softcap": 30.0}, {"s_aux": torch.zeros(6)}, {"sliding_window": 8}])
def test_what_paged_attention_does_not_do_is_refused(extra: dict[str, object]) -> None:
    q, k = torch.zeros(1, 6, 1, 16), torch.zeros(1, 2, 1, 16)
    with pytest.raises(ValueError, match=next(iter(extra))):
        paged_attention(torch.nn.Identity(), q, k, k, None, packed=None, **extra)  # type: ignore[arg-type]


def test_a_span_that_writes_nothing_is_left_out_of_what_is_stored() -> None:
    writing, padding = Span(0, 2, 0, torch.tensor([4, 5])), Span(2, 1, 3, torch.arange(4), writes=False)
    last = Span(3, 1, 0, torch.tensor([9]))
    row = PackedRow(None, [writing, padding, last], 1)  # type: ignore[arg-type]
    assert row.written is not None and row.written.tolist() == [0, 1, 3]
    assert row.write_slots is not None and row.write_slots.tolist() == [4, 5, 9]
    assert row.lengths == [2, 4, 1]
    assert PackedRow(None, [writing, last], 1).written is None  # type: ignore[arg-type]
    assert PackedRow(None, [padding], 1).write_slots is None  # type: ignore[arg-type]


def test_padding_changes_nothing_that_is_stored() -> None:
    """Its own blocks are taken by then: the wrong variant writes into those of whoever has the first block now."""
    served = Engine(tiny("llama"), Settings(slots=2, blocks=8, block_size=4, padding=True))
    (request,) = limited({0: 3})
    record = served.submit(request)
    served.run(50)
    assert not record.started
    storage = served._pass.storage
    before = storage._keys.clone(), storage._values.clone()
    assert served._pass.logits([], [record]).shape[0] == 0
    assert torch.equal(storage._keys, before[0]) and torch.equal(storage._values, before[1])
