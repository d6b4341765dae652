"""Chains and students, held against Monte Carlo, Gibbs' inequality, twin runs, and wrong ways to teach or to score."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from lib.distillation.chains import Chains, chains_of, held_out, lessons_of, misjudged, random_chains
from lib.distillation.students import (
    Labels,
    Lessons,
    Recipe,
    Trained,
    draw,
    gather_rows,
    hard_labels,
    new_students,
    soft_loss,
    student_logits,
    symbol_losses,
    train,
)

SEEDS = (0, 1, 2, 3)
TOKENS = 800
RECIPE = Recipe(steps=60, batch=128, hidden=4, rate=0.04)
# Stationary masses: 2^-43 of moved mass per step at most, over a gap of order 1; generous by 2^10.
SETTLED = 2.0**-33
SINGLE = 64 * 2.0**-24  # float32 losses of order 1 over rows of a dozen
STANDARD_ERRORS = 5  # one in a million and more per comparison


@pytest.fixture(scope="module")
def chains() -> Chains:
    return random_chains(SEEDS, symbols=10)


def taught(chains: Chains, teacher: torch.Tensor, labels: Labels, tokens: int = TOKENS) -> Trained:
    return train(lessons_of(chains, teacher, tokens), labels, RECIPE, held_out(chains))


def test_stationary_against_one_more_step(chains: Chains) -> None:
    v = chains.symbols
    successors = chains.log_probs.exp().view(len(SEEDS), v, v, v)
    moved = torch.einsum("sab,sabc->sbc", chains.stationary.view(-1, v, v), successors)
    assert float((moved.flatten(1) - chains.stationary).abs().max()) <= SETTLED
    assert torch.allclose(chains.stationary.sum(-1), torch.ones(len(SEEDS), dtype=torch.float64), atol=SETTLED)


def test_stationary_against_a_long_text(chains: Chains) -> None:
    """Walk the first chain: how often each symbol stands somewhere, against the marginal of its contexts."""
    generator, v = torch.Generator().manual_seed(1), chains.symbols
    walkers, steps = 4000, 40
    contexts = torch.randint(v * v, (1, walkers), generator=generator)
    first = chains.log_probs[:1]
    for _ in range(steps):
        contexts = (contexts % v) * v + draw(gather_rows(first, contexts), generator)
    seen = torch.bincount(contexts[0] % v, minlength=v).double() / walkers
    expected = chains.stationary[0].view(v, v).sum(0)
    error = (expected * (1 - expected) / walkers).sqrt()
    assert bool(((seen - expected).abs() <= STANDARD_ERRORS * error).all())


def test_expected_loss_against_sampling(chains: Chains) -> None:
    predicted = misjudged(chains, 1.0)
    drawn = lessons_of(chains, chains.log_probs, 20_000, seed=2)
    losses = -gather_rows(predicted, drawn.rows).gather(-1, drawn.true.unsqueeze(-1)).squeeze(-1)
    off = (losses.mean(-1) - chains.expected_loss(predicted)).abs()
    assert bool((off <= STANDARD_ERRORS * losses.std(-1) / 20_000**0.5).all())


def test_entropy_rate_is_the_floor(chains: Chains) -> None:
    assert torch.allclose(chains.expected_loss(chains.log_probs), chains.entropy_rate(), atol=SETTLED)
    assert bool((chains.expected_loss(misjudged(chains, 0.3)) > chains.entropy_rate()).all())


def test_expected_loss_rejects_contexts_weighted_alike(chains: Chains) -> None:
    """The wrong score averages over contexts as if each occurred equally often."""
    predicted = misjudged(chains, 1.0)
    alike = -(chains.log_probs.exp() * predicted).sum(-1).mean(-1)
    assert bool(((alike - chains.expected_loss(predicted)).abs() > SINGLE).all())


def test_soft_loss_at_one_is_the_mean_hard_loss(chains: Chains) -> None:
    lessons = lessons_of(chains, chains.log_probs.float(), 5, seed=3)
    logits = torch.randn(len(SEEDS), 5, chains.symbols, generator=torch.Generator().manual_seed(4))
    rows = lessons.told(torch.arange(5))
    each = torch.stack([-logits.log_softmax(-1)[..., y] for y in range(chains.symbols)], -1)
    assert torch.allclose(soft_loss(logits, rows, 1.0), (rows.exp() * each).sum(-1).mean(-1), atol=SINGLE)
    same = torch.full((len(SEEDS), 5), 2)
    assert torch.allclose(symbol_losses(logits, same), each[..., 2], atol=SINGLE)


def test_soft_loss_rejects_one_power_of_the_temperature(chains: Chains) -> None:
    """Gradients at T = 50 and T = 100 agree under T²; under T, the wrong factor, the hotter is half the other."""
    rows = lessons_of(chains, chains.log_probs.float(), 5, seed=3).told(torch.arange(5))
    start = torch.randn(len(SEEDS), 5, chains.symbols, generator=torch.Generator().manual_seed(4))

    def norm(temperature: float, power: int) -> float:
        logits = start.clone().requires_grad_()
        loss = soft_loss(logits, rows, temperature).sum() * temperature ** (power - 2)
        return float(torch.autograd.grad(loss, logits)[0].norm())

    assert norm(100, 2) / norm(50, 2) == pytest.approx(1, abs=0.1)
    assert norm(100, 1) / norm(50, 1) == pytest.approx(0.5, abs=0.05)


def test_students_do_not_see_one_another(chains: Chains) -> None:
    """The first two students of four, against the same with the others' lessons replaced."""
    lessons = lessons_of(chains, chains.log_probs, TOKENS)
    both = train(lessons, Labels.SOFT, RECIPE, held_out(chains))
    rows = torch.cat([lessons.rows[:2], lessons.rows[2:].flip(0)])
    other = train(replace(lessons, rows=rows), Labels.SOFT, RECIPE, held_out(chains))
    assert torch.allclose(both.final[:2], other.final[:2], atol=SINGLE)
    assert not torch.allclose(both.final[2:], other.final[2:], atol=SINGLE)


def test_training_is_repeatable_and_learns(chains: Chains) -> None:
    fresh = held_out(chains)(new_students(len(SEEDS), chains.symbols, chains.symbols, RECIPE.hidden))
    for labels in (Labels.SOFT, Labels.SAMPLED):
        first, again = (taught(chains, chains.log_probs, labels) for _ in range(2))
        assert torch.equal(first.final, again.final)
        assert bool((first.best <= first.final).all())
        assert bool((chains.entropy_rate() < first.best[:, 0]).all()) and bool((first.final < fresh).all())


def test_soft_labels_beat_hard_ones_when_tokens_are_few(chains: Chains) -> None:
    kinds = (Labels.SOFT, Labels.SAMPLED, Labels.ARGMAX)
    soft, sampled, top = (taught(chains, chains.log_probs, kind, tokens=200).best for kind in kinds)
    assert bool((soft < sampled).all()) and bool((soft < top).all())


def test_a_teacher_without_knowledge_rejects_the_comparison(chains: Chains) -> None:
    """The control: soft labels of a teacher who knows nothing must lose to hard labels of the truth."""
    ignorant = torch.zeros_like(chains.log_probs).log_softmax(-1)
    soft, true = (taught(chains, ignorant, kind).best for kind in (Labels.SOFT, Labels.TRUE))
    assert bool((true < soft).all())


def test_hard_labels_against_their_sources(chains: Chains) -> None:
    sure = torch.full_like(chains.log_probs, -40.0)
    sure[..., 3] = 0.0
    lessons, generator = lessons_of(chains, sure, 50), torch.Generator().manual_seed(5)
    assert bool((hard_labels(lessons, Labels.SAMPLED, generator) == 3).all())
    assert bool((hard_labels(lessons, Labels.ARGMAX, generator) == 3).all())
    assert torch.equal(hard_labels(lessons, Labels.TRUE, generator), lessons.true)
    assert not bool((lessons.true == 3).all())
    with pytest.raises(ValueError, match="distribution"):
        hard_labels(lessons, Labels.SOFT, generator)


def test_one_teacher_of_all_against_a_copy_for_each(chains: Chains) -> None:
    shared = chains.log_probs[:1]
    lessons = lessons_of(chains, shared.expand(len(SEEDS), -1, -1), TOKENS)
    one = replace(lessons, teacher=shared)
    for kind in (Labels.SOFT, Labels.ARGMAX, Labels.SAMPLED):
        losses = [train(given, kind, RECIPE, held_out(chains)).final for given in (lessons, one)]
        assert torch.equal(*losses)


def test_best_checkpoint_against_hand_made_losses(chains: Chains) -> None:
    """Each student's own: the first is best before the first step, the others' mean falls at every one of them."""
    calls = iter(range(100))

    def evaluate(_student: object) -> torch.Tensor:
        losses = torch.full((len(SEEDS), 2), -float(next(calls)))
        losses[0] *= -1
        return losses

    found = train(
        lessons_of(chains, chains.log_probs, 9), Labels.TRUE, replace(RECIPE, steps=6, checkpoints=3), evaluate
    )
    assert found.best.tolist() == [[0.0, 0.0], *[[-3.0, -3.0]] * 3]
    assert found.final.tolist() == [[3.0, 3.0], *[[-3.0, -3.0]] * 3]


def test_student_logits_against_a_plain_layer(chains: Chains) -> None:
    student = new_students(len(SEEDS), chains.symbols, chains.symbols, 4)
    first, second, bias, out, out_bias = (w.detach()[1] for w in student)
    a, b = 7, 2
    plain = torch.tanh(first[a] + second[b] + bias[0]) @ out + out_bias[0]
    pairs = torch.tensor([a, b]).expand(len(SEEDS), 1, 2)
    assert torch.allclose(student_logits(student, pairs)[1, 0], plain, atol=SINGLE)


def test_bad_chains_are_refused(chains: Chains) -> None:
    with pytest.raises(ValueError, match="two symbols"):
        random_chains([0], 1)
    with pytest.raises(ValueError, match="shape"):
        chains_of(torch.zeros(1, 3, 4))
    with pytest.raises(ValueError, match="without data"):
        lessons_of(chains, chains.log_probs, 0)


@pytest.mark.parametrize(
    "change", [{"steps": 0}, {"hidden": 0}, {"temperature": 0.0}, {"temperature": -1.0}, {"temperature": float("inf")}]
)
def test_bad_recipes_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="needs steps"):
        replace(RECIPE, **change)


@pytest.mark.parametrize("filling", [-torch.inf, torch.nan], ids=["empty", "nan"])
def test_teachers_without_a_distribution_are_refused(chains: Chains, filling: float) -> None:
    teacher = chains.log_probs.clone()
    teacher[1, 7] = filling
    with pytest.raises(ValueError, match="without a distribution"):
        lessons_of(chains, teacher, 3)


def test_bad_lessons_are_refused(chains: Chains) -> None:
    inputs, teacher, none = chains.contexts(), chains.log_probs, torch.zeros(len(SEEDS), 0, dtype=torch.long)
    with pytest.raises(ValueError, match="at least one"):
        Lessons(inputs, teacher, none, none)
    with pytest.raises(ValueError, match="cannot judge"):
        Lessons(inputs[:-1], teacher, torch.zeros(len(SEEDS), 1), torch.zeros(len(SEEDS), 1))


def test_the_rate_falls_to_nothing(chains: Chains) -> None:
    """Adam moves a weight by some rate per step; with a rate that stays, the last step is as long as the others."""
    recipe, weights = replace(RECIPE, steps=20, checkpoints=20), []

    def watch(student: tuple[torch.Tensor, ...]) -> torch.Tensor:
        weights.append(torch.cat([part.flatten() for part in student]).clone())
        return torch.zeros(len(SEEDS), 1)

    train(lessons_of(chains, chains.log_probs, TOKENS), Labels.SOFT, recipe, watch)
    steps = [float((after - before).abs().max()) for before, after in pairwise(weights)]
    assert len(steps) == 20
    assert steps[0] == pytest.approx(recipe.rate, rel=0.01)
    assert steps[-1] < 4 * recipe.rate / 20  # a rate of 1/20 is left; no step of Adam is longer than 3.2 rates
