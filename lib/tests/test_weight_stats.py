"""Weight statistics: against numpy, and on tiny models for what counts as a projection."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import nn
from transformers import Qwen2Config, Qwen2ForCausalLM

from lib.weight_stats import (
    distinct_per_block,
    level_histogram,
    levels_holding,
    normal_tail,
    projection_weights,
    summarize,
)


def tiny(tied: bool) -> Qwen2ForCausalLM:
    return Qwen2ForCausalLM(Qwen2Config(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=tied,
    ))  # fmt: skip


@pytest.mark.parametrize("tied", [True, False])
def test_projections_are_seven_per_layer_and_never_the_output_embedding(tied: bool) -> None:
    found = projection_weights(tiny(tied))
    assert len(found) == 3 * 7
    assert "lm_head" not in found
    assert found["model.layers.2.mlp.down_proj"].shape == (32, 48)


def test_projections_are_the_models_own_memory() -> None:
    model = tiny(tied=True)
    found = projection_weights(model)["model.layers.0.mlp.up_proj"]
    assert found.data_ptr() == model.model.layers[0].mlp.up_proj.weight.data_ptr()
    assert not found.requires_grad


def test_a_model_without_linear_layers_is_refused() -> None:
    with pytest.raises(ValueError, match="no linear layers of its own"):
        projection_weights(nn.Embedding(3, 3))


def test_summary_against_numpy() -> None:
    weights = np.random.default_rng(0).standard_t(3, size=(50, 80))
    found = summarize(torch.from_numpy(weights))
    std = weights.std(ddof=1)
    assert (found.count, found.rows, found.columns) == (4000, 50, 80)
    assert found.mean_abs == pytest.approx(np.abs(weights).mean())
    assert found.std == pytest.approx(std)
    assert found.std != pytest.approx(weights.std(ddof=0), rel=1e-6)
    assert found.max_over_std == pytest.approx(np.abs(weights).max() / std)
    assert found.beyond_6_sigma == (np.abs(weights) > 6 * std).sum() > 0


def test_normal_tail_against_tables() -> None:
    assert normal_tail(1.959964) == pytest.approx(0.05, rel=1e-6)
    assert normal_tail(6) == pytest.approx(1.973e-9, rel=1e-3)
    assert normal_tail(6) != pytest.approx(float(norm.sf(6)), rel=0.1)


def test_histogram_counts_every_code_from_the_lowest() -> None:
    found = level_histogram(torch.tensor([[-7, 0], [7, 7]], dtype=torch.int8), 4)
    assert found.tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2]


@pytest.mark.parametrize(("share", "levels"), [(0.5, 1), (0.9, 1), (0.95, 2), (0.99, 2), (1.0, 3)])
def test_levels_holding_a_share(share: float, levels: int) -> None:
    assert levels_holding(np.array([1, 90, 0, 9]), share) == levels


@pytest.mark.parametrize("share", [0.0, 1.1])
def test_impossible_shares_are_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        levels_holding(np.array([1, 2]), share)


def test_distinct_values_tell_a_lattice_from_free_weights() -> None:
    weights = torch.randn(16, 64 + 5, generator=torch.Generator().manual_seed(0))
    lattice = (weights * 4).round() / 4
    assert distinct_per_block(weights) > 31.9
    assert distinct_per_block(lattice) < 16
    assert distinct_per_block(torch.zeros(2, 32)) == 1
    with pytest.raises(ValueError, match="shorter than a block"):
        distinct_per_block(torch.zeros(2, 31))
