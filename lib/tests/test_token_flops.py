"""Operations counted by tokens, held against torch's own counter on a model whose attention is next to nothing."""

import copy

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from lib.tests.tiny_qwen2 import tiny_qwen2
from lib.token_flops import TokenFlops

TOKENS = 5
# Scores and mix of TOKENS positions beside the projections of the tiny model: what the counter by tokens leaves out.
ATTENTION_SHARE = 0.15


@pytest.fixture
def model():
    return tiny_qwen2()


def by_torch(model, ids):
    with FlopCounterMode(display=False) as counter:
        model(ids)
    return counter.get_total_flops()


def test_counts_against_torchs_own_counter(model):
    ids = torch.ones(1, TOKENS, dtype=torch.long)
    with TokenFlops(model) as counted:
        model(ids)
    assert 1 <= by_torch(model, ids) / counted.total() < 1 + ATTENTION_SHARE


def test_passes_of_a_copy_count_and_those_after_the_end_do_not(model):
    ids = torch.ones(1, TOKENS, dtype=torch.long)
    with TokenFlops(model) as counted:
        model(ids)
        once = counted.total()
        copy.deepcopy(model)(ids)
    model(ids)
    assert counted.total() == 2 * once


def test_every_row_of_logits_counts_by_hand(model):
    with TokenFlops(model) as counted:
        model(torch.ones(2, 3, dtype=torch.long))
        model(torch.ones(1, 5, dtype=torch.long), logits_to_keep=1)
    head = model.get_output_embeddings().weight.numel()
    body = sum(p.numel() for n, p in model.named_parameters() if "proj" in n and p.ndim == 2)
    assert counted.total() == 2 * (11 * body + 7 * head)
    assert counted.total(more_rows=4) == 2 * (11 * body + 11 * head)
