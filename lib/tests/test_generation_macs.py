"""Closed forms for a whole generation, held against every matrix product that a real one runs."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel, Qwen2Config
from transformers.models.qwen2 import Qwen2ForCausalLM

from lib.decoding import greedy_cached, greedy_uncached, random_tokens
from lib.generation_macs import growth_exponent, macs_of_generation, tokens_until_attention_dominates
from lib.layer_macs import FLOPS_PER_MAC

SIZES = {"hidden_size": 48, "intermediate_size": 80, "num_attention_heads": 6, "num_key_value_heads": 2}


@pytest.fixture(scope="module")
def tiny() -> PreTrainedModel:
    torch.manual_seed(0)
    config = Qwen2Config(vocab_size=97, num_hidden_layers=3, attn_implementation="eager", **SIZES)
    return Qwen2ForCausalLM(config).eval()


def counted(model: PreTrainedModel, tokens: int, cached: bool) -> int:
    generate = greedy_cached if cached else greedy_uncached
    with FlopCounterMode(display=False) as counter:
        generate(model, random_tokens(1, 97), tokens)  # the first step sees one position
    return counter.get_total_flops() // FLOPS_PER_MAC


@pytest.mark.parametrize("tokens", [1, 2, 7, 13])
@pytest.mark.parametrize("cached", [True, False])
def test_generation_against_counted_products(tiny: PreTrainedModel, tokens: int, cached: bool) -> None:
    assert counted(tiny, tokens, cached) == macs_of_generation(tiny.config, tokens, cached).total


def test_generation_rejects_the_other_mode(tiny: PreTrainedModel) -> None:
    assert macs_of_generation(tiny.config, 7, True).total < counted(tiny, 7, False)
    assert macs_of_generation(tiny.config, 7, False).total > counted(tiny, 7, True)


def test_exponents_run_from_weights_to_attention(tiny: PreTrainedModel) -> None:
    assert growth_exponent(tiny.config, 1, True) == pytest.approx(1, abs=0.05)
    assert growth_exponent(tiny.config, 10**7, True) == pytest.approx(2, abs=0.01)
    assert growth_exponent(tiny.config, 10**7, False) == pytest.approx(3, abs=0.01)


def test_crossing_against_its_neighbours(tiny: PreTrainedModel) -> None:
    for cached in (True, False):
        tokens = tokens_until_attention_dominates(tiny.config, cached)
        assert macs_of_generation(tiny.config, tokens, cached).attention_share > 1 / 2
        assert macs_of_generation(tiny.config, tokens - 1, cached).attention_share <= 1 / 2
