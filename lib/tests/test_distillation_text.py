"""Lessons from text, held against the model's own logits, hand-made texts, and wrong ways to divide them."""

from dataclasses import replace

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from lib.distillation.students import Labels, Recipe, train
from lib.distillation.text import (
    Judged,
    as_symbols,
    examiner,
    frequent,
    gain,
    judge,
    only_top,
    read_out,
    split_by_text,
    text_lessons,
)

SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
LAYERS, VOCABULARY = 3, 40
TEXTS, TOKENS = 6, 13
SINGLE = 64 * 2.0**-24  # logarithms of order 10 in float32


@pytest.fixture(scope="module")
def tiny() -> PreTrainedModel:
    torch.manual_seed(0)
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=VOCABULARY, num_hidden_layers=LAYERS, **SIZES)).eval()


@pytest.fixture(scope="module")
def ids() -> torch.Tensor:
    return torch.randint(VOCABULARY // 2, (TEXTS, TOKENS), generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def judged(tiny: PreTrainedModel, ids: torch.Tensor) -> Judged:
    return judge(tiny, ids, (LAYERS, 1), least=3)


def own_log_probs(tiny: PreTrainedModel, ids: torch.Tensor) -> torch.Tensor:
    """(P, N, V') by the model's whole forward pass, kept to the symbols and renormalized."""
    with torch.no_grad():
        logits = tiny(ids[:, :-1]).logits
    return logits[..., frequent(ids, 3)].log_softmax(-1)


def test_teacher_against_the_models_own_logits(tiny: PreTrainedModel, ids: torch.Tensor, judged: Judged) -> None:
    kept = as_symbols(ids, frequent(ids, 3))[:, 1:] < len(frequent(ids, 3))
    assert torch.allclose(judged.teachers[LAYERS], own_log_probs(tiny, ids)[kept], atol=SINGLE)
    assert not torch.allclose(judged.teachers[1], judged.teachers[LAYERS], atol=1000 * SINGLE), "the first block's"


def test_read_out_against_all_logits(tiny: PreTrainedModel, ids: torch.Tensor) -> None:
    with torch.no_grad():
        hidden, logits = tiny(ids, output_hidden_states=True).hidden_states[1], tiny(ids).logits
    assert read_out(tiny, hidden).shape == logits.shape
    assert torch.allclose(
        read_out(tiny, hidden, torch.tensor([3, 5])), read_out(tiny, hidden)[..., [3, 5]], atol=SINGLE
    )


def test_what_is_read_against_the_text_itself(ids: torch.Tensor, judged: Judged) -> None:
    """Token by token in a plain loop: two tokens back and what came next, where that is a symbol."""
    symbols = frequent(ids, 3).tolist()
    place = {token: symbols.index(token) for token in symbols}
    expected = []
    for number, text in enumerate(ids.tolist()):
        for t in range(len(text) - 1):
            if text[t + 1] in place:
                before = place.get(text[t - 1], len(symbols)) if t else len(symbols)
                expected.append((before, place.get(text[t], len(symbols)), place[text[t + 1]], number))
    found = torch.cat([judged.inputs, judged.true.unsqueeze(1), judged.piece.unsqueeze(1)], 1)
    assert found.tolist() == [list(row) for row in expected]


def test_teacher_loss_against_a_loop(judged: Judged) -> None:
    losses = [-float(judged.teachers[LAYERS][i, y]) for i, y in enumerate(judged.true.tolist())]
    assert judged.teacher_loss(LAYERS) == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def test_split_never_teaches_what_it_examines(judged: Judged) -> None:
    split = split_by_text(judged, 3)
    for student, (train_rows, held_rows) in enumerate(zip(split.train, split.held, strict=True)):
        assert set((judged.piece[held_rows] % 3).tolist()) == {student}
        assert student not in (judged.piece[train_rows] % 3).tolist()
    assert split_by_text(judged, 3, 0.5).train.shape[1] == split.train.shape[1] // 2
    assert torch.equal(split_by_text(judged, 3, 0.5).held, split.held)


def test_only_top_against_a_hand_made_row() -> None:
    kept = only_top(torch.tensor([[0.5, 0.125, 0.25, 0.125]]).log(), 2).exp()
    assert kept.tolist() == [pytest.approx([2 / 3, 0, 1 / 3, 0])]


def test_gain_is_paired_by_text(judged: Judged) -> None:
    """A constant advantage has width zero, however far apart the texts are."""
    split = split_by_text(judged, 3)
    losses = judged.piece[split.held].float()
    found = gain(judged, split, losses, losses - 0.25)
    assert (found.value, found.low, found.high) == (0.25, 0.25, 0.25)


def test_a_teacher_who_knows_the_text_against_one_who_errs(judged: Judged) -> None:
    """The instrument end to end: told the truth as a certain distribution, students learn what hard labels teach."""
    split, recipe = split_by_text(judged, 3), Recipe(steps=20, batch=16, hidden=4)
    knowing = torch.full_like(judged.teachers[LAYERS], -40.0).scatter(1, judged.true.unsqueeze(1), 0.0)
    results = {}
    for name, teacher, kind in (
        ("soft", knowing, Labels.SOFT),
        ("true", knowing, Labels.TRUE),
        ("wrong", -knowing, Labels.SOFT),
    ):
        lessons = text_lessons(judged, split, teacher.log_softmax(-1))
        results[name] = train(lessons, kind, recipe, examiner(judged, split)).final
    assert torch.allclose(results["soft"], results["true"], atol=1000 * SINGLE)
    assert not torch.allclose(results["wrong"], results["true"], atol=1000 * SINGLE)


def test_students_are_examined_on_what_they_were_not_taught(judged: Judged) -> None:
    """Other answers in the texts that the second student is examined on, and the first was taught, change one loss."""
    split = split_by_text(judged, 2)
    teacher, recipe = judged.teachers[LAYERS], Recipe(steps=2, batch=8, hidden=4)
    lessons, other = text_lessons(judged, split, teacher), judged.true.clone()
    other[split.held[1]] = (other[split.held[1]] + 1) % teacher.shape[1]
    losses = [
        train(lessons, Labels.SOFT, recipe, examiner(of, split)).final for of in (judged, replace(judged, true=other))
    ]
    assert torch.equal(losses[0][0], losses[1][0]) and not torch.equal(losses[0][1], losses[1][1])


def test_bad_input_is_refused(ids: torch.Tensor, judged: Judged) -> None:
    with pytest.raises(ValueError, match="no distribution"):
        frequent(ids, 10_000)
    with pytest.raises(ValueError, match="lessons"):
        split_by_text(judged, TEXTS + 1)
    with pytest.raises(ValueError, match="lessons"):
        split_by_text(judged, 3, share=0.0)
    other = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=11))
    with pytest.raises(ValueError, match="no norm"):
        read_out(other, torch.zeros(1, 8))
