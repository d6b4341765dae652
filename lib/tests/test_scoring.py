"""Scoring in pieces against the whole logits, and against transformers' own loss."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import cross_entropy, kl_div, log_softmax
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from lib.decoding import random_tokens
from lib.scoring import Scores, UnusualHead, bits_per_byte, open_head, perplexity
from lib.scoring import score as score_with

VOCAB = 211
# fp32 sums of 211 terms in another order: a few hundred roundings of 2^-24 on values below 10.
SAME_LOSS = 2e-5


def tiny(kind: str = "qwen2", seed: int = 0, **more: object) -> PreTrainedModel:
    config = AutoConfig.for_model(
        kind, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=VOCAB, **more,
    )  # fmt: skip
    torch.manual_seed(seed)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config).eval()
    for parameter in model.parameters():
        parameter.data.mul_(6)  # fresh weights are so small that every distribution is flat
    return model


def score(model: PreTrainedModel, ids: torch.Tensor, **more: object) -> Scores:
    return score_with(model, open_head(model), ids, **more)  # type: ignore[arg-type]


IDS = random_tokens(38, VOCAB, batch=7)  # 7 · 37 positions: two full pieces of 128 and a rest


def whole_logits(model: PreTrainedModel) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS).logits[:, :-1].double()


def test_loss_and_choice_against_the_whole_logits() -> None:
    model = tiny()
    found, logits = score(model, IDS, keep_lead=True), whole_logits(model)
    expected = cross_entropy(logits.flatten(0, 1), IDS[:, 1:].flatten(), reduction="none").reshape(7, 37)
    assert torch.allclose(found.loss, expected, atol=SAME_LOSS)
    assert torch.equal(found.top, logits.argmax(-1))
    best = logits.topk(2).values
    assert found.lead is not None
    assert torch.allclose(found.lead.double(), best[..., 0] - best[..., 1], atol=SAME_LOSS)


def test_mean_loss_against_transformers() -> None:
    model = tiny("llama")
    with torch.no_grad():
        expected = float(model(IDS, labels=IDS).loss)
    assert math.log(perplexity(score(model, IDS).loss)) == pytest.approx(expected, abs=SAME_LOSS)


def test_divergence_against_torch_kl_div() -> None:
    first, second = tiny(), tiny()
    second.model.layers[0].mlp.up_proj.weight.data.mul_(1.3)
    reference = score(first, IDS, keep_hidden=True)
    found = score(second, IDS, reference=reference.hidden).divergence
    ours, theirs = (log_softmax(whole_logits(m), -1) for m in (second, first))
    expected = kl_div(ours, theirs, reduction="none", log_target=True).sum(-1)
    assert found is not None
    assert torch.allclose(found, expected, atol=SAME_LOSS)
    assert float(found.mean()) > 100 * SAME_LOSS


def test_divergence_rejects_the_other_direction() -> None:
    """The wrong variant: KL(scheme ‖ reference) is another number."""
    first, second = tiny(), tiny(seed=1)
    second.model.embed_tokens.weight.data.copy_(first.model.embed_tokens.weight)
    second.lm_head.weight.data.copy_(first.lm_head.weight)
    there = score(second, IDS, reference=score(first, IDS, keep_hidden=True).hidden).divergence
    back = score(first, IDS, reference=score(second, IDS, keep_hidden=True).hidden).divergence
    assert there is not None
    assert back is not None
    assert not torch.allclose(there, back, rtol=0.01)


def test_a_model_does_not_diverge_from_itself() -> None:
    model = tiny()
    reference = score(model, IDS, keep_hidden=True)
    again = score(model, IDS, reference=reference.hidden)
    assert again.divergence is not None
    assert float(again.divergence.max()) < SAME_LOSS
    assert torch.equal(again.loss, reference.loss)


def test_loss_rejects_a_double_shift() -> None:
    """The wrong variant: labels shifted once by the caller and once more by the model."""
    model = tiny()
    logits = whole_logits(model)
    shifted = cross_entropy(logits[:, :-1].flatten(0, 1), IDS[:, 2:].flatten())
    assert float(shifted) != pytest.approx(float(score(model, IDS).loss.mean()), rel=1e-3)


def test_perplexity_is_of_tokens_and_rejects_the_mean_of_windows() -> None:
    loss = torch.tensor([[1.0, 1.0], [3.0, 3.0]])
    assert perplexity(loss) == pytest.approx(math.exp(2))
    assert perplexity(loss) != pytest.approx(float(loss.mean(1).exp().mean()), rel=0.1)


def test_perplexity_beyond_double_is_infinite_and_nan_stays_nan() -> None:
    assert perplexity(torch.tensor([800.0])) == math.inf
    assert math.isnan(perplexity(torch.tensor([float("nan")])))
    assert not Scores(torch.tensor([[float("nan")]]), torch.tensor([[0]])).finite


def test_bits_per_byte_of_a_uniform_byte_is_eight() -> None:
    assert bits_per_byte(torch.full((2, 5), math.log(256)), 10) == pytest.approx(8)
    with pytest.raises(ValueError, match="at least one byte"):
        bits_per_byte(torch.ones(1), 0)


def test_logits_changed_after_the_output_embedding_are_refused() -> None:
    for scaling in (4.0, 1.01):
        with pytest.raises(UnusualHead):
            score(tiny("granite", logits_scaling=scaling), IDS)


def test_an_output_embedding_with_a_bias_is_refused() -> None:
    model = tiny()
    model.lm_head.bias = torch.nn.Parameter(torch.ones(VOCAB))
    with pytest.raises(UnusualHead, match="no plain output embedding"):
        score(model, IDS)


@pytest.mark.parametrize("shape", [(0, 5), (3, 1), (3, 0)])
def test_windows_without_a_scored_token_are_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="at least two tokens"):
        score(tiny(), torch.zeros(shape, dtype=torch.long))


def test_a_broken_model_scores_not_a_number() -> None:
    model = tiny()
    model.model.norm.weight.data[0] = float("nan")
    assert not score(model, IDS).finite
