"""Solo runs against transformers' generate, and the engine against its continuous batching, on the same requests."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from lib.decoding import greedy_generate
from lib.serving.engine import Settings
from lib.serving.reference import Solo, TransformersSettings, by_transformers
from lib.tests.tiny_serving import NEW, ROUNDING, Script, alone, expected, limited, pool, tiny

GREEDY = tuple(request.id for request in pool() if request.sampling is None)
THEIRS = TransformersSettings(slots=3, blocks=40, page_size=4, budget=12)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("name", GREEDY)
def test_solo_runs_against_generate(name: int) -> None:
    theirs = greedy_generate(tiny("qwen2"), torch.tensor([pool()[name].prompt]), NEW, 1.0)[0].tolist()
    assert alone("qwen2")[name].equals(theirs, ROUNDING)


@pytest.mark.parametrize("family", ["qwen2", "llama"])
def test_engine_against_transformers_continuous_batching(family: str) -> None:
    asked = limited({name: 1 + (5 * name) % NEW for name in GREEDY})
    before = tiny(family).config._attn_implementation
    theirs = by_transformers(tiny(family), asked, THEIRS)
    engine, _ = Script(asked).play(family, Settings(slots=3, blocks=40, block_size=4, budget=12))
    assert set(theirs) == set(engine.records)
    for name, record in engine.records.items():
        whole = expected(family, record.request)
        assert whole.equals(theirs[name], ROUNDING) and whole.equals(record.tokens, ROUNDING)
    assert tiny(family).config._attn_implementation == before


def test_end_ids_are_delivered_by_both() -> None:
    whole = expected("qwen2", pool()[0])
    asked = [replace(pool()[0], end_ids=frozenset({whole.tokens[3]}))]
    engine, _ = Script(asked).play("qwen2", Settings(1, 20, 4))
    assert by_transformers(tiny("qwen2"), asked, THEIRS)[0] == engine.records[0].tokens


def test_sampled_requests_are_refused_there() -> None:
    with pytest.raises(ValueError, match="share one generator"):
        by_transformers(tiny("qwen2"), pool(), THEIRS)


def test_equality_allows_parting_at_near_ties_only() -> None:
    reply = Solo((5, 6, 7), (1.0, 1e-6, 1.0))
    assert reply.equals((5, 6, 7), 1e-5)
    assert reply.equals((5, 9, 1), 1e-5), "the second choice was within rounding; the rest is another text"
    assert not reply.equals((4, 6, 7), 1e-5)
    assert not reply.equals((5, 6), 1e-5) and not reply.equals((5, 6, 7, 8), 1e-5), "a reply cut short is no near tie"
    assert (reply.parts_at((5, 9, 7)), reply.parts_at((5, 6)), reply.parts_at((5, 6, 7))) == (1, 2, None)
