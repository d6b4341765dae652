"""The engine, held against solo runs on transformers' own cache under random schedules, and its slots."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.serving.engine import Engine, Settings
from lib.serving.requests import State
from lib.serving.scheduler import Policy
from lib.tests.tiny_serving import FAMILIES, NEW, ROUNDING, Script, expected, limited, pool, tiny

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TIGHT = 30  # positions that hold any request of the pool, 29 at most, and rarely two


pytestmark = pytest.mark.usefixtures("one_thread")


@st.composite
def engine_settings(draw: st.DrawFn) -> Settings:
    slots, size = draw(st.integers(1, 5)), draw(st.integers(1, 7))
    return Settings(
        slots=slots,
        blocks=draw(st.integers(-(-TIGHT // size), -(-4 * TIGHT // size))),
        block_size=size,
        budget=slots + draw(st.integers(0, 20)),
        policy=draw(st.sampled_from(Policy)),
        sharing=draw(st.booleans()),
        padding=draw(st.booleans()),
    )


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    order = draw(st.permutations(range(len(pool()))))[: draw(st.integers(1, 9))]
    asked = limited({i: draw(st.integers(0, NEW)) for i in order})
    early = st.integers(0, 12)
    return Script(
        asked,
        arrivals={i: draw(early) for i in order if draw(st.booleans())},
        cancellations={i: draw(early) for i in order if draw(st.integers(0, 4)) == 0},
    )


@QUICK
@given(st.sampled_from(FAMILIES), engine_settings(), scripts())
def test_any_schedule_against_solo_runs(family: str, chosen: Settings, script: Script) -> None:
    engine, steps = script.play(family, chosen)
    for record in engine.records.values():
        whole = expected(family, record.request)
        if record.state is State.CANCELLED:
            assert len(record.tokens) <= len(whole.tokens)
            whole = type(whole)(whole.tokens[: len(record.tokens)], whole.gaps)
        else:
            assert record.state is State.FINISHED
        assert whole.equals(record.tokens, ROUNDING), (record, whole)
        assert script.streamed.get(record.request.id, []) == list(record.tokens)
    assert engine.cache.used == 0 and engine.cache.free + engine.cache.evictable == chosen.blocks
    assert sum(step.new for step in steps) == sum(len(record.tokens) for record in engine.records.values())
    assert all(step.prefill + step.decode <= chosen.budget for step in steps)
    assert engine.scheduler.idle and not engine.scheduler.seated


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("policy", Policy)
def test_preemption_against_solo_runs(family: str, policy: Policy) -> None:
    """So little memory that requests really lose their blocks in the middle of a prompt and of a reply."""
    script = Script(limited(dict.fromkeys(range(len(pool())), NEW)))
    engine, _ = script.play(family, Settings(slots=4, blocks=10, block_size=3, budget=7, policy=policy))
    records = engine.records.values()
    assert any(record.preemptions for record in records)
    assert all(expected(family, record.request).equals(record.tokens, ROUNDING) for record in records)
    oldest = engine.records[0]
    assert oldest.preemptions == 0, "the oldest request must always get on"


@pytest.mark.parametrize("sharing", [True, False])
def test_prefix_sharing_computes_less_and_the_same(sharing: bool) -> None:
    script = Script(limited(dict.fromkeys((8, 9, 10, 11), NEW)), arrivals={9: 2, 10: 4, 11: 6})
    engine, steps = script.play("llama", Settings(slots=4, blocks=40, block_size=3, sharing=sharing))
    assert all(expected("llama", r.request).equals(r.tokens, ROUNDING) for r in engine.records.values())
    found = [engine.records[i].shared for i in (8, 9, 10, 11)]
    assert found == ([0, 9, 9, 12] if sharing else [0, 0, 0, 0])  # the last one's prompt begins as the second's does
    assert sum(step.prefill for step in steps) == sum(len(pool()[i].prompt) for i in (8, 9, 10, 11)) - sum(found)


def test_a_freed_slot_works_for_the_next_request_in_the_very_next_step() -> None:
    script = Script(limited({i: 1 + (5 * i) % NEW for i in range(12)}))
    engine, steps = script.play("qwen2", Settings(slots=3, blocks=200, block_size=4))
    left = [12 - sum(r.times.finished < t for r in engine.records.values()) for t in _begins(engine, steps)]
    assert [sum(step.working) for step in steps] == [min(3, n) for n in left]


def _begins(engine: Engine, steps: list) -> list[float]:
    """When each step's tokens were there: the engine reads its clock once between the pass and the tokens."""
    times = sorted({t for record in engine.records.values() for t in record.times.tokens})
    assert len(times) == len(steps)  # every step of this script delivers something
    return times


def test_a_static_batch_rejects_refilling_and_hands_over_together() -> None:
    """The same requests: four steps or 231 in the chapter, here 2 and 14, wait for one another."""
    script = Script(limited({0: 2, 1: NEW, 2: 2, 3: 2}))
    static, steps = script.play("llama", Settings(2, 100, 4, policy=Policy.STATIC))
    times = {i: record.times for i, record in static.records.items()}
    assert times[0].finished < times[1].finished <= times[0].delivered
    assert times[2].admitted > times[1].finished
    assert [step.padding for step in steps[:NEW]] == [0, 0] + [1] * (NEW - 2)
    assert steps[5].slots == (0, 1) and steps[5].working == (False, True)
    refilled, fewer = script.play("llama", Settings(2, 100, 4))
    assert len(fewer) < len(steps)
    assert refilled.records[0].times.delivered < refilled.records[2].times.tokens[0]


def test_padding_is_computed_only_when_asked_for() -> None:
    script, seen = Script(limited({0: 1, 1: 5})), list[int]()
    hook = tiny("llama").register_forward_hook(lambda _, args, out: seen.append(args[0].shape[1]))
    for padding in (True, False):
        script.play("llama", Settings(2, 100, 4, policy=Policy.STATIC, padding=padding))
    hook.remove()
    assert seen == [1, 8, 2, 2, 2, 2, 1, 8, 1, 1, 1, 1]  # the engine tries one token first


def test_a_queue_larger_than_memory_is_served_in_order() -> None:
    asked = limited({i % 12: 3 for i in range(12)})
    engine, _ = Script(asked).play("qwen2", Settings(slots=12, blocks=10, block_size=3, budget=30))
    firsts = [record.times.admitted for record in engine.records.values()]
    assert firsts == sorted(firsts)
    assert all(record.state is State.FINISHED for record in engine.records.values())


def test_an_end_id_ends_a_reply_and_is_delivered() -> None:
    whole = expected("qwen2", pool()[0])
    request = type(pool()[0])(0, pool()[0].prompt, NEW, None, frozenset({whole.tokens[4]}))
    engine, _ = Script([request]).play("qwen2", Settings(1, 20, 4))
    record, first = engine.records[0], whole.tokens.index(whole.tokens[4])
    assert record.tokens == whole.tokens[: first + 1] and record.reason == "end id"


def test_logits_are_computed_for_choices_only() -> None:
    rows = list[int]()
    head = tiny("qwen2").get_output_embeddings()
    hook = head.register_forward_hook(lambda _, args, out: rows.append(out.shape[1]))
    Script(limited({2: 3, 4: 3})).play("qwen2", Settings(2, 100, 4, budget=64))
    hook.remove()
    assert rows == [1, 2, 2, 2]  # the engine tries one token first
