"""Shared prefixes on an engine against whole blocks counted from the first token, and with sharing off against none."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from lib.paged_cache import tables
from lib.serving import prefixes
from lib.serving.engine import Settings
from lib.serving.prefixes import SharedPrefix, shared_prefix
from lib.serving.reference import Solo, solo
from lib.tests.paged_cache_faults import ForgetsTheParent
from lib.tests.tiny_serving import tiny

OWN, NEW = 3, 4
# Prefixes around the ends of blocks; the first tokens after them differ, by the seeds, so nothing more is in common.
CASES = [(n, size) for size in (1, 4, 7) for n in sorted({size - 1, size, size + 1, 3 * size - 1, 3 * size})]


pytestmark = pytest.mark.usefixtures("one_thread")


def probe(prefix: int, block_size: int, family: str = "qwen2") -> SharedPrefix:
    return shared_prefix(tiny(family), prefix, OWN, NEW, block_size)


@pytest.mark.parametrize(("prefix", "block_size"), CASES)
def test_shared_blocks_against_whole_blocks_of_the_prefix(prefix: int, block_size: int) -> None:
    blocks = prefix // block_size
    assert probe(prefix, block_size) == SharedPrefix(blocks, 2 if blocks else 0, tokens_that_differ=0, shifted_blocks=0)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_the_same_on_other_families(family: str) -> None:
    assert probe(9, 4, family) == SharedPrefix(2, 2, tokens_that_differ=0, shifted_blocks=0)


def test_nothing_is_shared_with_sharing_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefixes, "Settings", partial(Settings, sharing=False))
    assert probe(12, 4) == SharedPrefix(0, 0, tokens_that_differ=0, shifted_blocks=0)


def test_blocks_known_by_their_own_tokens_are_seen_in_the_shifted_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one token each, so that a shift by one leaves the same blocks; the first of the shifted prompt differs."""

    class LooksFurther(ForgetsTheParent):
        def longest(self, chunks):
            found = [self._child(self.root, chunk) for chunk in chunks]
            return [(node, node.blocks[0]) for node in found if node and node.blocks]

    monkeypatch.setattr(tables, "PrefixIndex", LooksFurther)
    assert probe(6, 1).shifted_blocks > 0


def test_a_block_that_is_common_in_part_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_first_token(ids, size):
        """As if the index compared the first token of a block only: a partly common block is found too."""
        return (tuple(ids[at : at + 1]) for at in range(0, len(ids) - size + 1, size))

    monkeypatch.setattr(tables, "_chunks", by_first_token)
    assert probe(10, 4).blocks == 3 != 10 // 4


def test_a_reply_that_is_not_the_solo_runs_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(model, request) -> Solo:
        right = solo(model, request)
        return replace(right, tokens=(*right.tokens[:-1], right.tokens[-1] + 1))

    monkeypatch.setattr(prefixes, "solo", other)
    assert probe(8, 4).tokens_that_differ == 2
