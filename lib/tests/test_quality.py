"""A visit against the same measurements made one at a time, and contrasts against counting by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from lib.batched_decoding import Reply, greedy_replies
from lib.battery import Grade, Question
from lib.decoding import random_tokens
from lib.intervals import Estimate
from lib.quality import OWN, REFERENCE, NotANumber, Quiz, Row, Workload, visit
from lib.quality_contrasts import (
    Duel,
    cost,
    divergence_summary,
    duel,
    first_divergences,
    grades,
    largest_step,
    near_ties,
    order_of,
    pairs_told_apart,
    perplexity_of,
    right,
    same_choice,
    share,
    shares_of_gain,
)
from lib.quantization.schemes import SCHEMES
from lib.quantization.swap import WeightSwap
from lib.scoring import Scores, open_head, score

VOCAB = 101
END = frozenset({7})


@pytest.fixture(scope="module")
def tiny() -> PreTrainedModel:
    config = AutoConfig.for_model(
        "qwen2", hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=VOCAB, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config).eval()
    for parameter in model.parameters():
        parameter.data.mul_(5)
    return model


QUIZ = Quiz(
    tuple(Question(f"q{i}", f"Which {i}?", ("x",)) for i in range(3)),
    tuple(random_tokens(5 + i, VOCAB, seed=i)[0] for i in range(3)), (1.0, 1.2), 4,
)  # fmt: skip
TEXTS = {OWN: random_tokens(9, VOCAB, seed=1, batch=3), "prose": random_tokens(12, VOCAB, seed=2, batch=4)}
WORKLOAD = Workload(TEXTS, frozenset({OWN}), {"short": QUIZ})


def visits(model: PreTrainedModel, *slugs: str) -> list[Row]:
    swap = WeightSwap(model)
    reference = visit(model, swap, None, WORKLOAD, END)
    return [reference, *(visit(model, swap, SCHEMES[s], WORKLOAD, END, reference=reference) for s in slugs)]


def test_visit_against_one_measurement_at_a_time(tiny: PreTrainedModel) -> None:
    reference, row = visits(tiny, "int4-row")
    with WeightSwap(tiny).quantized(SCHEMES["int4-row"]):
        alone = score(tiny, open_head(tiny), TEXTS["prose"])
        replies = greedy_replies(tiny, QUIZ.prompts, penalties=[1.2], max_new_tokens=4, end_ids=END)[0]
    assert torch.equal(row.of("prose").loss, alone.loss)
    assert row.replies["short"][1.2] == replies
    assert row.of("prose").divergence is None
    first = reference.of(OWN).hidden
    with WeightSwap(tiny).quantized(SCHEMES["int4-row"]):
        apart = score(tiny, open_head(tiny), TEXTS[OWN], reference=first).divergence
    assert torch.equal(row.of(OWN).divergence, apart)
    assert float(apart.mean()) > 1e-3  # of another model, not of itself
    assert reference.scheme == REFERENCE


def test_a_divergence_costs_a_second_output_embedding(tiny: PreTrainedModel) -> None:
    texts, swap = Workload(TEXTS, frozenset({OWN}), {}), WeightSwap(tiny)
    reference = visit(tiny, swap, None, texts, END)
    row = visit(tiny, swap, SCHEMES["int4-row"], texts, END, reference=reference)
    assert row.flops - reference.flops == 2 * TEXTS[OWN][:, 1:].numel() * VOCAB * 64


def test_flops_against_torchs_counter(tiny: PreTrainedModel) -> None:
    """Of everything a visit does, questions included; this model's attention is not counted by torch either."""
    swap = WeightSwap(tiny)
    with FlopCounterMode(display=False) as counter:
        found = visit(tiny, swap, None, WORKLOAD, END)
    attention = sum(n for name, n in counter.get_flop_counts()["Global"].items() if "attention" in str(name))
    probe = 2 * 4 * (2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128) * 2 + 2 * 64 * VOCAB)  # of the head
    assert found.flops + probe + attention == counter.get_total_flops()


def test_a_head_that_is_known_is_not_looked_at_again(tiny: PreTrainedModel) -> None:
    """The wrong variant is the call without it: it runs the model's few tokens more, and finds the same."""
    texts, head, counted, found = Workload(TEXTS, frozenset(), {}), open_head(tiny), [], []
    for known in (head, None):
        with FlopCounterMode(display=False) as counter:
            found.append(visit(tiny, WeightSwap(tiny), None, texts, END, head=known))
        counted.append(counter.get_total_flops())
    assert counted[0] < counted[1]
    assert all(torch.equal(found[0].of(text).loss, found[1].of(text).loss) for text in TEXTS)


def test_flops_rejects_counting_every_logit(tiny: PreTrainedModel) -> None:
    """The wrong variant: a logit row for every token of every prompt, of which the visit computes one."""
    found = visit(tiny, WeightSwap(tiny), None, Workload({}, frozenset(), {"short": QUIZ}), END)
    prompts = sum(len(p) for p in QUIZ.prompts)
    assert found.flops < 2 * prompts * (2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128) + 64 * VOCAB) * 4


def test_int8_stays_closer_than_int4(tiny: PreTrainedModel) -> None:
    reference, fine, coarse = visits(tiny, "int8-row", "int4-tensor")
    assert divergence_summary(fine.of(OWN))["mean"] < divergence_summary(coarse.of(OWN))["mean"]
    assert cost(coarse, coarse, "prose") == Estimate(0, 0, 0)
    ratio = float(perplexity_of(coarse, "prose").value) / float(perplexity_of(reference, "prose").value)
    assert math.log(ratio) == pytest.approx(float(cost(coarse, reference, "prose").value))


def test_own_text_is_compared_where_the_reference_wrote_it(tiny: PreTrainedModel) -> None:
    reference, row = visits(tiny, "int4-row")
    everywhere = row.of(OWN).top == reference.of(OWN).top
    assert not torch.equal(everywhere[:, :3], everywhere[:, -3:])  # or the next line could not tell them apart
    assert torch.equal(same_choice(row, reference, OWN, 3), everywhere[:, -3:].double())
    assert same_choice(row, reference, "prose", 3).shape == (4, 11)
    assert bool(same_choice(reference, reference, OWN, 3).all())


def broken(model: PreTrainedModel) -> Row:
    kept = model.model.norm.weight.data.clone()
    try:
        model.model.norm.weight.data[0] = float("nan")
        return visit(model, WeightSwap(model), None, WORKLOAD, END)
    finally:
        model.model.norm.weight.data = kept


def test_a_broken_model_gives_no_number_and_no_answer(tiny: PreTrainedModel) -> None:
    row = broken(tiny)
    with pytest.raises(NotANumber, match="reference on prose"):
        row.of("prose")
    assert "not numbers" in row.broken
    assert row.replies["short"][1.0] == [Reply((), False, 0)] * 3


def test_grades_read_the_replies_in_order(tiny: PreTrainedModel) -> None:
    row = Row("s", {}, {"short": {1.0: [Reply((1,), True, 0), Reply((2,), True, 0), Reply((), True, 0)]}}, 0.0, 1)
    found = grades(row, "short", QUIZ, 1.0, lambda ids: {(1,): "x", (2,): "house"}.get(tuple(ids), ""))
    assert found == [Grade.RIGHT, Grade.WRONG, Grade.UNPARSEABLE]
    assert right(found) == [True, False, False]


def test_duel_against_counting_by_hand() -> None:
    found = duel([True, True, False, False, True], [True, False, True, False, False])
    assert found == Duel(1, 2, 1, 1)
    assert (found.questions, found.lead, found.p_value) == (5, 1, 1.0)
    assert found.difference.contains(0)
    assert Duel(0, 6, 0, 10).p_value < 0.05 < Duel(0, 5, 0, 11).p_value


def test_duel_rejects_columns_that_are_not_paired() -> None:
    with pytest.raises(ValueError, match="longer"):
        duel([True], [True, False])


def test_share_and_first_divergence_by_hand() -> None:
    same = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    assert first_divergences(same) == [2, None, 0]
    assert float(share(same).value) == pytest.approx(7 / 9)
    assert share(same).high <= 1


def test_divergence_summary_by_hand() -> None:
    values = torch.arange(101, dtype=torch.float64).reshape(1, -1)
    scores = Scores(values, values.long(), divergence=values)
    assert divergence_summary(scores) == pytest.approx({"mean": 50, "median": 50, "99th percentile": 99})
    with pytest.raises(ValueError, match="not compared"):
        divergence_summary(Scores(values, values.long()))


def test_near_ties_are_where_choices_differ() -> None:
    same, lead = torch.tensor([[1.0, 0.0, 1.0]]), torch.tensor([[4.0, 0.1, 2.0]])
    assert near_ties(same, lead) == pytest.approx({"where they agree": 2.0, "where they differ": 0.1})
    assert "where they differ" not in near_ties(torch.ones(1, 3), lead)


def test_pairs_told_apart_by_hand() -> None:
    place = {"a": 0.0, "b": 0.5, "c": 3.0}

    def difference(first: str, second: str) -> Estimate:
        gap = place[first] - place[second]
        return Estimate(gap, gap - 1, gap + 1)

    assert pairs_told_apart(list(place), difference) == 2


def test_steps_shares_and_order_by_hand() -> None:
    assert largest_step([1.0, 0.9, 0.5, 0.0]) == pytest.approx(0.5)
    assert shares_of_gain(4.0, 3.0, 2.0) == pytest.approx({"first": 0.5, "second": 0.5})
    assert order_of({"a": 2.0, "b": 1.0}) == ["b", "a"]
    with pytest.raises(ValueError, match="no fall"):
        largest_step([1.0, 1.0])


def test_near_ties_by_hand() -> None:
    same, lead = torch.tensor([[1, 1, 0, 0, 0]]), torch.tensor([[2.0, 4.0, 0.1, 0.2, 0.3]])
    assert near_ties(same, lead) == pytest.approx({"where they agree": 2.0, "where they differ": 0.2})
    assert near_ties(torch.zeros(1, 5), lead) == pytest.approx({"where they differ": 0.3})
