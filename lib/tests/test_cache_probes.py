"""Probes of real caches against the formula where it must be exact, and against known excess where it must not."""

import pytest
from transformers import GPT2Config, LlamaConfig, Qwen2Config

from lib.cache_bytes import cache_shape, kv_bytes_per_token
from lib.cache_probes import (
    PROMPT,
    RESERVED,
    WINDOW,
    bytes_per_token_with,
    held_at,
    held_by_kind,
    held_on_grid,
    padded_batch,
    possible_kv_heads,
)
from lib.slim_models import cache_only
from lib.unmeasurable import Unmeasurable

TINY = Qwen2Config(hidden_size=32, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=8)

TINY_LLAMA = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 16,
    "vocab_size": 32,
}


def test_possible_heads_against_the_divisors() -> None:
    expected = {n: kv_bytes_per_token(2, n, 8, 2) for n in (1, 2, 3, 6)}
    assert possible_kv_heads(TINY) == expected


def test_unequal_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="6 query heads in 4 groups"):
        bytes_per_token_with(TINY, 4)


def test_grid_is_exact_and_names_every_point() -> None:
    grid = held_on_grid(LlamaConfig(**TINY_LLAMA), [(1, 1), (3, 5)])
    assert len(grid) == 6
    assert all(held.exact for held in grid.values())


def test_held_at_rejects_a_wrong_formula() -> None:
    held = held_at(cache_only(TINY), 2, 5)
    assert held.actual_bytes == 2 * 5 * cache_shape(TINY).bytes_per_token(4)
    assert held.actual_bytes != 2 * 5 * kv_bytes_per_token(2, 6, 8, 4)


def test_kinds_against_what_each_must_hold() -> None:
    """After a step the sliding tensors view WINDOW - 1 positions of a storage that was built with WINDOW."""
    ratios = {kind: held.ratio * (PROMPT + 1) for kind, held in held_by_kind(TINY).items()}
    assert ratios == {
        "growing, whole context": PROMPT + 1,
        "growing, sliding window": WINDOW,
        "reserved in advance": RESERVED,
    }


def test_padded_batch_against_its_slots() -> None:
    model = cache_only(TINY)
    per_token = cache_shape(TINY).bytes_per_token(4)
    mixed, equal = padded_batch(model, [7, 3, 2]), padded_batch(model, [7, 7, 7])
    assert (mixed.allocated_bytes, mixed.used_bytes) == (21 * per_token, 12 * per_token)
    assert equal.wasted_share == 0


@pytest.mark.parametrize("heads", [4, 6])
def test_heads_that_cannot_be_set_are_refused_and_not_counted(heads: int) -> None:
    """GPT-2 has as many key-value heads as query heads, whatever is set: every number of them would seem to run.

    Six do not even divide the slim width.
    """
    config = GPT2Config(n_embd=48, n_layer=2, n_head=heads)
    for probe in (possible_kv_heads, held_by_kind):
        with pytest.raises(Unmeasurable, match="gpt2 has no key-value heads whose number and size can be set"):
            probe(config)
