"""The streamed reading of logits held against the whole matrix of them."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from lib.streamed_logits import read_logits

POSITIONS, WIDTH, IDS = 11, 8, 37
BLOCKS = [(1024, 2048), (4, 5), (1, 1), (11, 36), (3, 37)]
SAME = 1e-5  # a few dozen fp32 roundings of logits of size 10


@pytest.fixture
def drawn() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Hidden states, other hidden states, an output embedding with large logits, targets over the whole vocabulary."""
    generator = torch.Generator().manual_seed(5)
    hidden, other = (torch.randn(POSITIONS, WIDTH, generator=generator) for _ in range(2))
    head = 3 * torch.randn(IDS, WIDTH, generator=generator)
    targets = torch.cat([torch.tensor([0, IDS - 1]), torch.randint(IDS, (POSITIONS - 2,), generator=generator)])
    return hidden, other, head, targets


@pytest.mark.parametrize("block", BLOCKS)
def test_loss_choice_and_lead_against_torch(drawn: tuple[torch.Tensor, ...], block: tuple[int, int]) -> None:
    hidden, _, head, targets = drawn
    logits, read = hidden @ head.T, read_logits(hidden, head, targets, with_lead=True, block=block)
    best = logits.topk(2, dim=1).values
    torch.testing.assert_close(read.loss, cross_entropy(logits, targets, reduction="none").double(), rtol=0, atol=SAME)
    assert torch.equal(read.top, logits.argmax(1))
    assert read.lead is not None
    torch.testing.assert_close(read.lead, best[:, 0] - best[:, 1], rtol=0, atol=SAME)
    assert read.divergence is None


@pytest.mark.parametrize("block", BLOCKS)
def test_divergence_against_torch(drawn: tuple[torch.Tensor, ...], block: tuple[int, int]) -> None:
    hidden, other, head, targets = drawn
    read = read_logits(hidden, head, targets, reference=other, block=block)
    ours, theirs = (log_softmax(h @ head.T, 1) for h in (hidden, other))
    expected = kl_div(ours, theirs, log_target=True, reduction="none").sum(1).double()
    assert read.divergence is not None
    torch.testing.assert_close(read.divergence, expected, rtol=1e-5, atol=SAME)
    reverse = kl_div(theirs, ours, log_target=True, reduction="none").sum(1).double()
    assert not torch.allclose(read.divergence, reverse, rtol=0.01)


def test_a_sum_that_is_not_rescaled_is_another_loss(drawn: tuple[torch.Tensor, ...]) -> None:
    hidden, _, head, targets = drawn
    logits = hidden @ head.T
    wrong = sum((part - part.max(1, keepdim=True).values).exp().sum(1) for part in torch.split(logits, 5, 1))
    chosen = logits.gather(1, targets[:, None])[:, 0]
    wrong_loss = torch.as_tensor(wrong).log() + logits.max(1).values - chosen
    assert (read_logits(hidden, head, targets, block=(4, 5)).loss - wrong_loss).abs().max() > 0.1


def test_of_equal_logits_the_first_id_is_chosen_across_blocks() -> None:
    head = torch.tensor([[0.0], [2.0], [1.0], [2.0], [2.0]])
    read = read_logits(torch.ones(1, 1), head, torch.tensor([3]), with_lead=True, block=(1, 2))
    assert read.top.tolist() == [1]
    assert read.lead is not None and read.lead.tolist() == [0.0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_logit_that_is_no_number_makes_the_loss_none(bad: float) -> None:
    head = torch.tensor([[1.0], [bad], [0.5], [2.0]])
    for block in ((1, 1), (1, 4)):
        read = read_logits(torch.ones(1, 1), head, torch.tensor([0]), block=block)
        assert not torch.isfinite(read.loss).any()
