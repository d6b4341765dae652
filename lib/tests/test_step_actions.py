"""Single passes, held against lib.decoding, torch's own FLOP counter, and the bytes of real weights and caches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, PreTrainedModel, Qwen2Config
from transformers.cache_utils import Cache
from transformers.models.llama import LlamaForCausalLM
from transformers.models.qwen2 import Qwen2ForCausalLM

from lib import step_actions
from lib.cache_bytes import cache_shape, filled_cache, storage_bytes
from lib.decoding import ALL_POSITIONS, cached_tokens, decode_step, forward, prefill, random_tokens
from lib.step_actions import decode_action, pass_cost, prefill_action

VOCAB, HIDDEN, LAYERS, HEADS, KV_HEADS = 97, 48, 3, 6, 2
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "intermediate_size": 80,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "attn_implementation": "eager",
}


@pytest.fixture(params=["tied", "untied", "wide heads"])
def tiny(request: pytest.FixtureRequest) -> PreTrainedModel:
    torch.manual_seed(7)
    if request.param == "wide heads":  # a head dimension that is not hidden / heads
        return LlamaForCausalLM(LlamaConfig(**SIZES, head_dim=16, tie_word_embeddings=False)).eval()
    return Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=request.param == "tied")).eval()


class Spy:
    """Stands in for decode_step: what was asked, what came back, how full the cache was before."""

    def __init__(self) -> None:
        self.caches: list[Cache] = []
        self.before: list[int] = []
        self.logits: list[Tensor] = []

    def __call__(self, model: PreTrainedModel, tokens: Tensor, cache: Cache, logits_to_keep: int = 1) -> Tensor:
        self.caches.append(cache)
        self.before.append(cached_tokens(cache))
        self.logits.append(decode_step(model, tokens, cache, logits_to_keep))
        return self.logits[-1]


@pytest.fixture
def spy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spy]:
    watching = Spy()
    monkeypatch.setattr(step_actions, "decode_step", watching)
    return watching


@pytest.mark.parametrize(("context", "batch", "positions"), [(16, 1, 1), (5, 3, 1), (12, 2, 4)])
def test_every_step_starts_from_the_same_cache(
    tiny: PreTrainedModel, spy: Spy, context: int, batch: int, positions: int
) -> None:
    step = decode_action(tiny, context, batch, positions)
    for _ in range(3):
        step()
        assert cached_tokens(spy.caches[-1]) == context
    assert spy.before == [context] * 3
    assert torch.equal(spy.logits[0], spy.logits[2])


def test_a_step_that_does_not_roll_back_would_grow(tiny: PreTrainedModel, spy: Spy) -> None:
    """The wrong variant: every further sample has a longer context than the one before."""
    cache = filled_cache(cache_shape(tiny.config), 1, 8, tiny.dtype)
    for _ in range(2):
        spy(tiny, random_tokens(1, VOCAB), cache)
    assert spy.before == [8, 9]


@pytest.mark.parametrize(("batch", "positions"), [(1, 1), (3, 1), (2, 4)])
def test_step_logits_against_a_pass_over_the_same_inputs(
    tiny: PreTrainedModel, spy: Spy, batch: int, positions: int
) -> None:
    decode_action(tiny, 9, batch, positions)()
    cache = filled_cache(cache_shape(tiny.config), batch, 9, tiny.dtype)
    tokens = random_tokens(positions, VOCAB, batch=batch)
    assert torch.equal(spy.logits[0], decode_step(tiny, tokens, cache, ALL_POSITIONS))
    assert spy.logits[0].shape == (batch, positions, VOCAB)


def test_prefill_against_decodings_prefill(tiny: PreTrainedModel) -> None:
    action = prefill_action(tiny, 11, batch=2)
    ours, theirs = action(), prefill(tiny, random_tokens(11, VOCAB, batch=2))
    assert torch.equal(ours.logits, theirs.logits)  # type: ignore[attr-defined]
    assert cached_tokens(action().cache) == 11  # type: ignore[attr-defined]  # a fresh cache every time


# the cost of a pass

CASES = [(0, 1, 11, 1), (16, 1, 1, 1), (16, 3, 1, 1), (9, 2, 4, 4)]  # context, batch, positions, logits


def masked_flops(model: PreTrainedModel, batch: int, positions: int) -> float:
    """Products with positions that the causal mask throws away: torch computes them, nobody needs them."""
    shape = cache_shape(model.config)
    return 4 * batch * positions * (positions - 1) / 2 * HEADS * shape.head_dim * shape.layers


def counted_flops(model: PreTrainedModel, context: int, batch: int, positions: int, logits: int) -> int:
    """What torch's counter sees in such a pass, the angles of rotary positions left out (no product of ours)."""
    cache = filled_cache(cache_shape(model.config), batch, context, model.dtype) if context else None
    ids = random_tokens(positions, VOCAB, batch=batch)
    counter = FlopCounterMode(display=False)
    with counter:
        forward(model, ids, cache=cache, use_cache=True, logits_to_keep=logits)
    counts = counter.get_flop_counts()
    rotary = sum(sum(ops.values()) for name, ops in counts.items() if name.endswith("rotary_emb"))
    return int(sum(counts["Global"].values()) - rotary)


@pytest.mark.parametrize("case", CASES)
def test_flops_against_torchs_counter(tiny: PreTrainedModel, case: tuple[int, int, int, int]) -> None:
    """Eager attention, counted whole: the causal count is the counter's, less what the mask throws away."""
    _, batch, positions, _ = case
    assert counted_flops(tiny, *case) == pass_cost(tiny, *case).flops + masked_flops(tiny, batch, positions)


def test_bidirectional_attention_would_cost_more(tiny: PreTrainedModel) -> None:
    """Only a single position has nothing to mask; the counter alone cannot tell what a pass must at least do."""
    assert counted_flops(tiny, 9, 2, 4, 4) > pass_cost(tiny, 9, 2, 4, 4).flops
    assert counted_flops(tiny, 9, 2, 1, 1) == pass_cost(tiny, 9, 2, 1, 1).flops


@pytest.mark.parametrize("case", CASES)
def test_flops_outside_attention_against_torchs_counter_under_sdpa(
    tiny: PreTrainedModel, case: tuple[int, int, int, int]
) -> None:
    """On a CPU the counter has no formula for sdpa's own kernel: what it sees is everything else."""
    context, batch, positions, _ = case
    shape = cache_shape(tiny.config)
    attended = batch * (positions * context + positions * (positions + 1) / 2)
    attention = 4 * attended * HEADS * shape.head_dim * shape.layers
    tiny.set_attn_implementation("sdpa")
    assert counted_flops(tiny, *case) == pass_cost(tiny, *case).flops - attention


def read_of(model: PreTrainedModel, context: int, batch: int, positions: int) -> int:
    """Bytes of every matrix that takes part, by name, and of the cache that such a step really leaves behind."""
    cache = filled_cache(cache_shape(model.config), batch, context, model.dtype)
    decode_step(model, random_tokens(positions, VOCAB, batch=batch), cache)
    tied = model.config.tie_word_embeddings
    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and (tied or "embed_tokens" not in n)]
    return sum(p.numel() * p.element_size() for p in matrices) + storage_bytes(cache)


@pytest.mark.parametrize(("context", "batch", "positions"), [(16, 1, 1), (16, 3, 1), (9, 2, 4)])
def test_bytes_against_parameters_and_a_real_cache(
    tiny: PreTrainedModel, context: int, batch: int, positions: int
) -> None:
    assert pass_cost(tiny, context, batch, positions).read_bytes == read_of(tiny, context, batch, positions)


def test_bytes_follow_the_format(tiny: PreTrainedModel) -> None:
    full = pass_cost(tiny, 16, 2).read_bytes
    half = tiny.to(torch.bfloat16)
    assert pass_cost(half, 16, 2).read_bytes == read_of(half, 16, 2, 1) == full / 2


def test_biases_and_norms_are_what_is_left_out(tiny: PreTrainedModel) -> None:
    """The rest of the parameters are vectors, and with separate embeddings the input's, of which a row is read."""
    weights = pass_cost(tiny, 0, 0).read_bytes  # no row, no cache
    vectors = sum(p.numel() for p in tiny.parameters() if p.ndim == 1) * 4
    lookup = 0 if tiny.config.tie_word_embeddings else VOCAB * HIDDEN * 4
    assert weights == sum(p.numel() * p.element_size() for p in tiny.parameters()) - vectors - lookup


def test_counting_the_input_embedding_would_differ(tiny: PreTrainedModel) -> None:
    """The wrong variant, every parameter once for every token: a lookup multiplies nothing."""
    matrices = sum(p.numel() for p in tiny.parameters() if p.ndim == 2)
    per_token = pass_cost(tiny, 0, 1, 1, 1).flops - pass_cost(tiny, 0, 1, 1, 0).flops
    assert per_token == 2 * VOCAB * HIDDEN
    wrong = 2 * matrices + 2 * (VOCAB * HIDDEN if tiny.config.tie_word_embeddings else 0)
    attention = 4 * HEADS * cache_shape(tiny.config).head_dim * LAYERS
    assert pass_cost(tiny, 0).flops == wrong - 2 * VOCAB * HIDDEN + attention


def test_a_model_without_linear_layers_is_refused() -> None:
    from transformers import GPT2Config
    from transformers.models.gpt2 import GPT2LMHeadModel

    with pytest.raises(ValueError, match="no linear layers of its own"):
        pass_cost(GPT2LMHeadModel(GPT2Config(vocab_size=7, n_embd=8, n_layer=1, n_head=2)), 4)
