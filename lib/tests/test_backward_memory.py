"""Kept bytes, held against a graph whose saved tensors are known, and recomputing against the plain gradient."""

from dataclasses import replace

import torch
from transformers import Qwen2Config
from transformers.models.qwen2 import Qwen2ForCausalLM

from lib.backward_memory import keeping, plain_and_recomputing, same_gradient, training_state_bytes
from lib.decoding import random_tokens

SIZES = {"hidden_size": 64, "intermediate_size": 160, "num_attention_heads": 4, "num_key_value_heads": 2}
CONFIG = Qwen2Config(vocab_size=101, num_hidden_layers=3, **SIZES)


def test_kept_bytes_grow_with_tokens_and_leave_no_gradient() -> None:
    model = Qwen2ForCausalLM(CONFIG).eval()
    found = keeping(model, (20, 40, 80))
    kept = found.kept_bytes
    assert kept[80] - kept[40] == 2 * (kept[40] - kept[20])  # linear in the tokens
    assert found.bytes_per_token == (kept[80] - kept[40]) / 40
    assert found.over_inference == kept[80] / found.inference_bytes > 3
    assert all(p.grad is None for p in model.parameters())
    assert kept[20] >= 3 * 3 * 20 * 160 * 4  # gate, up and product of three layers, at the least


def test_training_state_against_a_real_optimizer() -> None:
    model = Qwen2ForCausalLM(CONFIG)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    ids = random_tokens(5, 101)
    model(ids, labels=ids).loss.backward()
    optimizer.step()
    moments = sum(t.numel() * 4 for s in optimizer.state.values() for t in s.values() if t.ndim > 0)
    weights = sum(p.numel() * 4 for p in model.parameters())
    gradients = sum(p.grad.numel() * 4 for p in model.parameters() if p.grad is not None)
    assert training_state_bytes(model) == weights + gradients + moments


def test_recomputing_against_the_plain_gradient_and_against_one_a_bit_off() -> None:
    plain, recomputing = plain_and_recomputing(CONFIG, 24)
    assert same_gradient(plain, recomputing)
    assert recomputing.kept_share < plain.kept_share / 4
    off_by_a_bit = replace(plain, gradient=tuple(torch.nextafter(g, g + 1) for g in plain.gradient))
    assert not same_gradient(plain, off_by_a_bit)
    first, *rest = plain.gradient
    assert not same_gradient(plain, replace(plain, gradient=(torch.nextafter(first, first + 1), *rest)))
