"""Gradients of the distillation loss, held against autograd, torch's own losses, the hot limit, and wrong scalings."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.distillation.gradients import (
    autograd_gradient,
    expected_hard_gradient,
    gradient_share,
    hard_gradient,
    hot_limit,
    hot_limit_error_bound,
    label_noise,
    soft_cross_entropy,
    soft_divergence,
    soft_gradient,
)
from lib.distillation.temperature import entropy, soften

# Exponents up to 100 (logits of 10 over T >= 0.1) rounded: 100 units in a probability, over 0.1, two of them, two ways.
ROUNDED = 4096 * 2.0**-53
DIFFERENT = 1e-3  # what a wrong form must miss by at least, in gradients of order 0.1

temperatures = st.floats(0.1, 30)
seeds = st.integers(0, 1000)


def logits(seed: int, symbols: int = 11, rows: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    student, teacher = (2 * torch.randn(rows, symbols, generator=generator, dtype=torch.float64) for _ in range(2))
    return student, teacher


def largest(difference: torch.Tensor) -> float:
    return float(difference.abs().max())


@given(seeds, temperatures)
@settings(deadline=None, max_examples=30)
def test_soft_gradient_against_autograd(seed: int, temperature: float) -> None:
    student, teacher = logits(seed)
    closed = soft_gradient(student, teacher, temperature)
    for loss in (soft_cross_entropy, soft_divergence):
        by_autograd = autograd_gradient(lambda z, f=loss: f(z, teacher, temperature), student)
        assert largest(by_autograd - closed) <= ROUNDED


def test_soft_gradient_rejects_wrong_scalings() -> None:
    student, teacher = logits(5)
    by_autograd = autograd_gradient(lambda z: soft_cross_entropy(z, teacher, 3.0), student)
    without_division = soften(student, 3.0) - soften(teacher, 3.0)
    unsoftened_teacher = (soften(student, 3.0) - soften(teacher, 1.0)) / 3.0
    averaged = soft_gradient(student, teacher, 3.0) / student.shape[-1]
    for wrong in (without_division, unsoftened_teacher, averaged):
        assert largest(by_autograd - wrong) > DIFFERENT


@given(seeds, temperatures)
@settings(deadline=None, max_examples=30)
def test_divergence_against_torch_and_the_cross_entropy(seed: int, temperature: float) -> None:
    student, teacher = logits(seed)
    inputs = (student / temperature).log_softmax(-1), (teacher / temperature).log_softmax(-1)
    theirs = torch.nn.functional.kl_div(*inputs, log_target=True, reduction="none").sum(-1)
    ours = soft_divergence(student, teacher, temperature)
    constant = entropy(soften(teacher, temperature))
    assert largest(ours - theirs) <= ROUNDED * 16
    assert largest(soft_cross_entropy(student, teacher, temperature) - ours - constant) <= ROUNDED * 16


def test_hard_gradient_against_autograd() -> None:
    student, _ = logits(3)
    label = torch.tensor([4, 0, 10])
    by_autograd = autograd_gradient(lambda z: torch.nn.functional.cross_entropy(z, label, reduction="none"), student)
    assert largest(by_autograd - hard_gradient(student, label)) <= ROUNDED


@given(seeds, st.sampled_from([30.0, 100.0, 1e3, 1e5]))
@settings(deadline=None, max_examples=30)
def test_scaled_gradient_against_the_hot_limit(seed: int, temperature: float) -> None:
    student, teacher = logits(seed)
    scaled = temperature**2 * soft_gradient(student + 3.0, teacher - 1.0, temperature)  # means that are not zero
    off = (scaled - hot_limit(student, teacher)).abs().amax(-1)
    bound = hot_limit_error_bound(student, teacher, temperature)
    assert bool((off <= bound + temperature * ROUNDED).all())


@pytest.mark.parametrize("power", [0, 1, 3])
def test_hot_limit_rejects_other_powers_of_the_temperature(power: int) -> None:
    """With T² the gradient settles; with T it still fades, with T³ it still grows, by the factor between the Ts."""
    student, teacher = logits(7)
    norms = [float(soft_gradient(student, teacher, t).norm()) for t in (100.0, 200.0)]
    settled = norms[1] * 200.0**2 / (norms[0] * 100.0**2)
    wrong = norms[1] * 200.0**power / (norms[0] * 100.0**power)
    assert settled == pytest.approx(1, abs=0.05)
    assert wrong == pytest.approx(2.0 ** (power - 2), rel=0.05)


def test_hot_limit_refuses_cold_temperatures() -> None:
    student, teacher = logits(0)
    with pytest.raises(ValueError, match="no limit"):
        hot_limit_error_bound(student, teacher, 0.5)


@given(seeds)
@settings(deadline=None, max_examples=30)
def test_sampled_labels_carry_the_soft_gradient_on_average(seed: int) -> None:
    student, teacher = (rows[0] for rows in logits(seed))
    assert largest(expected_hard_gradient(student, teacher) - soft_gradient(student, teacher, 1.0)) <= ROUNDED
    best = hard_gradient(student, teacher.argmax())
    assert largest(best - soft_gradient(student, teacher, 1.0)) > DIFFERENT, "the top label alone does not"


@given(seeds)
@settings(deadline=None, max_examples=30)
def test_label_noise_against_enumeration(seed: int) -> None:
    student, teacher = (rows[0] for rows in logits(seed))
    mean = soft_gradient(student, teacher, 1.0)
    squares = [float((hard_gradient(student, torch.tensor(y)) - mean).square().sum()) for y in range(len(teacher))]
    variance = float(soften(teacher, 1.0) @ torch.tensor(squares, dtype=torch.float64))
    assert variance == pytest.approx(float(label_noise(teacher)), abs=ROUNDED)


def test_gradient_share_against_hand_count() -> None:
    assert gradient_share(torch.tensor([-0.5, 0.3, 0.2]), [1, 2]) == pytest.approx(0.5, rel=1e-6)
    with pytest.raises(ValueError, match="zero"):
        gradient_share(torch.zeros(3), [0])


def test_the_bound_of_the_hot_limit_falls_with_the_temperature_and_knows_no_common_offset() -> None:
    student, teacher = logits(3)
    bound = hot_limit_error_bound(student, teacher, 100.0)
    assert torch.allclose(hot_limit_error_bound(student, teacher, 200.0), bound / 2)
    offset = torch.tensor([[0.0], [5.0], [40.0]], dtype=torch.float64)
    assert torch.allclose(hot_limit_error_bound(student + offset, teacher - offset, 100.0), bound)


def test_the_bound_of_the_hot_limit_by_hand() -> None:
    student, teacher = torch.tensor([1.0, -1.0, 0.0]), torch.tensor([4.0, -2.0, -2.0])
    assert float(hot_limit_error_bound(student, teacher, 8.0)) == 3 * 8 * (4 / 8) ** 2 / 3
