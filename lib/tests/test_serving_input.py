"""What an engine must refuse, reject or survive: bad requests, unsupported models, cancellation in every state."""

from __future__ import annotations

import pytest
import torch
from transformers import Gemma2Config, LlamaConfig, MistralConfig, PreTrainedModel, Qwen2Config
from transformers.models.gemma2 import Gemma2ForCausalLM
from transformers.models.llama import LlamaForCausalLM
from transformers.models.mistral import MistralForCausalLM
from transformers.models.qwen2 import Qwen2ForCausalLM

from lib.serving.engine import Engine, Settings
from lib.serving.models import UnsupportedModel
from lib.serving.requests import GenerationRequest, Record, Sampling, State, Times, goodput
from lib.serving.scheduler import Policy
from lib.tests.tiny_serving import LONGEST, ROUNDING, SIZES, VOCAB, expected, limited, pool, prompt, tiny

SETTINGS = Settings(slots=2, blocks=10, block_size=4, budget=6)
POLICIES = tuple(Policy)


pytestmark = pytest.mark.usefixtures("one_thread")


def engine(**changes: object) -> Engine:
    return Engine(tiny("llama"), Settings(**(vars(SETTINGS) | changes)))  # type: ignore[arg-type]


def check_others(served: Engine, *but: object) -> None:
    """Everybody else got the tokens of a solo run, and memory is whole."""
    served.run(300)
    for name, record in served.records.items():
        if name not in but:
            assert record.state is State.FINISHED
            assert expected("llama", record.request).equals(record.tokens, ROUNDING)
    assert served.cache.used == 0 and not served.scheduler.seated


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (GenerationRequest("x", prompt(30, 1), 12), "needs 41 positions, the whole cache has 40"),
        (GenerationRequest("x", (1, VOCAB, 2), 3), "outside the vocabulary of 97"),
        (GenerationRequest("x", (1, -1), 3), "outside the vocabulary"),
    ],
)
def test_a_request_that_can_never_be_served_is_rejected_at_once(request_: GenerationRequest, reason: str) -> None:
    served = engine()
    first, second = limited({0: 4, 1: 4})
    served.submit(first)
    rejected = served.submit(request_)
    served.submit(second)
    assert rejected.state is State.REJECTED and reason in rejected.reason
    check_others(served, "x")


def test_more_positions_than_the_model_has_are_rejected() -> None:
    served = engine(blocks=40)
    assert served.submit(GenerationRequest("x", prompt(60, 1), LONGEST - 60 + 2)).state is State.REJECTED
    assert "the model has 64" in served.records["x"].reason
    last = served.submit(GenerationRequest("y", prompt(60, 1), LONGEST - 60 + 1))
    served.run(100)
    assert last.state is State.FINISHED and len(last.tokens) == 5


def test_a_request_that_fills_the_whole_cache_is_served_twice_over() -> None:
    """The second finds all of the first's blocks and still has to compute its last position."""
    served = engine(blocks=4)
    for name in ("x", "y"):
        served.submit(GenerationRequest(name, prompt(16, 1), 1))
    served.run(100)
    assert served.records["x"].tokens == served.records["y"].tokens != ()
    assert served.records["y"].shared == 12


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GenerationRequest("x", (), 3), "'x' has an empty prompt"),
        (lambda: GenerationRequest("x", (1,), -1), "-1 tokens"),
        (lambda: Sampling(0, temperature=0.0), "temperature"),
        (lambda: Sampling(0, temperature=float("nan")), "not nan"),
        (lambda: Sampling(0, top_k=0), "top_k"),
        (lambda: Sampling(0, top_p=0.0), "top_p"),
        (lambda: engine(slots=0), "0 slots"),
        (lambda: engine(budget=1), "less than one for each of 2 slots"),
        (lambda: engine(blocks=0), "block"),
        (lambda: engine(block_size=0), "position"),
    ],
)
def test_impossible_values_are_refused(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_no_tokens_asked_for_is_finished_at_once_and_runs_no_model() -> None:
    served = engine()
    record = served.submit(limited({0: 0})[0])
    assert (record.state, record.tokens, served.step()) == (State.FINISHED, (), None)
    assert record.times.delivered is not None and record.times.ttft is None


def test_an_id_seen_before_is_refused_even_after_its_end() -> None:
    served = engine()
    served.submit(pool()[0])
    for _ in range(2):
        with pytest.raises(ValueError, match="a request 0 already"):
            served.submit(pool()[0])
        served.run(100)
    check_others(served)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("steps", range(9))
@pytest.mark.parametrize("victim", [0, 2, 3])
def test_cancellation_in_every_state(policy: Policy, steps: int, victim: int) -> None:
    """Number 2 has a prompt of 16, several chunks; number 3 waits; the states are counted below."""
    served = engine(policy=policy)
    for request in limited({0: 4, 2: 4, 3: 4}):
        served.submit(request)
    for _ in range(steps):
        served.step()
    state = served.records[victim].state
    so_far = served.records[victim].tokens
    assert served.cancel(victim) == (state is not State.FINISHED)
    assert not served.cancel(victim)
    assert served.records[victim].tokens == so_far
    assert served.records[victim].state is (State.FINISHED if state is State.FINISHED else State.CANCELLED)
    check_others(served, victim)


def test_every_state_is_met_by_the_cancellations_above() -> None:
    served, met = engine(), set()
    for request in limited({0: 4, 2: 4, 3: 4}):
        served.submit(request)
    for _ in range(9):
        met |= {served.records[victim].state for victim in (0, 2, 3)}
        served.step()
    assert met == {State.WAITING, State.PREFILLING, State.DECODING, State.FINISHED}
    rejected = served.submit(GenerationRequest("x", prompt(60, 1), 1))
    assert not served.cancel("x") and rejected.state is State.REJECTED
    with pytest.raises(KeyError):
        served.cancel("unheard of")


def test_callbacks_may_cancel_anybody_and_hand_in_more() -> None:
    served = engine()
    heard: list[tuple[object, int]] = []

    def on_token(name: object, token: int) -> None:
        heard.append((name, token))
        if len(heard) == 1:
            served.cancel(0)
            served.cancel(2)
            served.submit(limited({4: 3})[0])

    for request in limited({0: 4, 2: 4, 3: 4}):
        served.submit(request, on_token)
    check_others(served, 0, 2)
    assert [record.state for record in served.records.values()].count(State.CANCELLED) == 2
    assert heard[0][0] == 0 and {name for name, _ in heard[1:]} == {3}


def test_a_failing_callback_ends_its_own_request_only() -> None:
    def hung_up(name: object, token: int) -> None:
        raise ConnectionError("gone")

    served = engine()
    first, second = limited({0: 6, 1: 6})
    served.submit(first, hung_up)
    served.submit(second)
    check_others(served, 0)
    assert served.records[0].state is State.CANCELLED and "gone" in served.records[0].reason


def test_broken_logits_end_one_request_and_no_other() -> None:
    served = engine()
    for request in limited({0: 4, 1: 4}):
        served.submit(request)
    head = tiny("llama").get_output_embeddings()

    def poison(module: object, args: object, out: torch.Tensor) -> torch.Tensor:
        out = out.clone()
        out[0, 0] = float("nan")
        return out

    hook = head.register_forward_hook(poison)
    served.step()
    hook.remove()
    assert served.records[0].state is State.REJECTED and "NaN" in served.records[0].reason
    check_others(served, 0)


def small(kind: str) -> PreTrainedModel:
    sizes = SIZES | {"num_hidden_layers": 2}
    if kind == "qwen2 window":
        return Qwen2ForCausalLM(Qwen2Config(**sizes, use_sliding_window=True, sliding_window=8, max_window_layers=1))
    if kind == "mistral window":
        return MistralForCausalLM(MistralConfig(**sizes, head_dim=8, sliding_window=8))
    if kind == "gemma2":
        return Gemma2ForCausalLM(Gemma2Config(**(sizes | {"bos_token_id": 1}), head_dim=8))
    if kind == "dynamic rope":
        rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
        return LlamaForCausalLM(LlamaConfig(**sizes, rope_parameters=rope))
    return LlamaForCausalLM(LlamaConfig(**sizes))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("qwen2 window", "Qwen2ForCausalLM: has layers of type sliding_attention"),
        ("mistral window", "MistralForCausalLM: its layers see a sliding window of 8"),
        ("gemma2", "Gemma2ForCausalLM: has layers of type sliding_attention"),
        ("dynamic rope", "dynamic rotary embeddings"),
        ("training", "training mode"),
    ],
)
def test_a_model_that_would_not_be_served_exactly_is_refused(kind: str, reason: str) -> None:
    model = small(kind)
    model.train(kind == "training")
    with pytest.raises(UnsupportedModel, match=reason):
        Engine(model, SETTINGS)


@pytest.mark.parametrize(
    ("attribute", "value", "reason"),
    [
        ("_is_stateful", True, "a state per sequence"),
        ("_supports_attention_backend", False, "attention interface"),
        ("_supports_logits_to_keep", lambda: False, "some positions only"),
    ],
)
def test_a_model_without_what_the_engine_needs_is_refused(
    attribute: str, value: object, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiny("llama"), attribute, value, raising=False)
    with pytest.raises(UnsupportedModel, match=f"LlamaForCausalLM: .*{reason}"):
        engine()


def test_a_window_that_is_switched_off_is_no_obstacle() -> None:
    sizes = SIZES | {"num_hidden_layers": 1}
    Engine(Qwen2ForCausalLM(Qwen2Config(**sizes, use_sliding_window=False, sliding_window=8)).eval(), SETTINGS)
    Engine(MistralForCausalLM(MistralConfig(**sizes, head_dim=8, sliding_window=None)).eval(), SETTINGS)


def finished(tokens: list[float], arrival: float = 0.0) -> Record:
    return Record(pool()[0], 0, Times(arrival, tokens=tokens), [], state=State.FINISHED)


def test_times_and_goodput_against_hand_made_ones() -> None:
    quick, late, slow = finished([1.0, 1.5, 2.0]), finished([5.0, 5.1]), finished([1.0, 4.0])
    assert (quick.times.ttft, quick.times.tpot) == (1.0, 0.5)
    single, none = finished([3.0], arrival=2.0), finished([])
    assert (single.times.ttft, single.times.tpot, none.times.ttft) == (1.0, None, None)
    cancelled = finished([1.0])
    cancelled.state = State.CANCELLED
    everybody = [quick, late, slow, single, none, cancelled]
    assert goodput(everybody, 4.0, ttft=2.0, tpot=1.0) == 2 / 4
    assert goodput(everybody, 4.0, ttft=9.0, tpot=9.0) == 4 / 4
    with pytest.raises(ValueError, match="0 seconds"):
        goodput(everybody, 0, 1, 1)


def test_goodput_rejects_counting_a_mean_over_requests() -> None:
    """Two requests whose mean TTFT is within the limit, one of which is not."""
    pair = [finished([1.0]), finished([3.0])]
    assert goodput(pair, 1.0, ttft=2.0, tpot=1.0) == 1.0 and sum(r.times.ttft for r in pair) / 2 <= 2.0


def test_a_run_tells_its_steps_and_an_idle_engine_none() -> None:
    served = engine()
    served.submit(limited({0: 4})[0])
    assert sum(step.new for step in served.run(100)) == 4
    assert served.run(100) == []


def test_what_attention_cannot_do_is_found_before_anybody_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("softcap")

    monkeypatch.setattr("lib.serving.models.packed_forward", refuse)
    with pytest.raises(UnsupportedModel, match="softcap"):
        engine()
