"""What a student gets from a teacher's whole distribution, what a temperature does to it, and what a gradient carries.

The probabilities that the chapter prints are its own model's. On another model the shape is tried, on the printed
sentence and on five of ours (fixtures.next_tokens). Students learn from 24 pieces of text with the model itself as
their teacher (fixtures.lessons), and from random languages whose truth is known exactly (lib.distillation.chains).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from claims.distillation_faults import (
    LOSSES,
    SOFT_GRADIENT,
    all_over_the_first,
    always_at_one,
    drawn_blindly,
    first_two_exchanged,
    in_single_precision,
    of_the_choice,
    told_the_choice,
    turned_round,
    without_its_temperature,
)
from claims.distillation_tables import (
    NEAR_MISSES,
    chain_gaps,
    first_words,
    mass_plot,
    mass_table,
    share_table,
    students_table,
    words_table,
)
from fixtures.next_tokens import PRINTED
from lib.intervals import Estimate
from reports.claim import Claim, claim
from reports.controls import control, misprint
from reports.plants import of_property, reads, result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from claims.distillation_tables import FirstWords
    from fixtures.lessons import School
    from fixtures.next_tokens import NextTokens

WORDS = ("jug", "cup", "bowl", "large", "milk")
NAMED = 5
TEMPERATURES = (0.5, 1.25, 1.5, 2.0, 4.0, 8.0)
HOT = 10_000.0  # far beyond the largest centred logit, so that the limit has settled to one in a hundred
FEW_CLASSES = 10  # digits, as in the argument that the chapter retells
ROWS_AT_ONCE = 512  # most probable tokens, for identities that need a square of them
SHARES = (1 / 16, 1.0)  # of the tokens that can be taught


@claim("distillation.soft-labels")
@control("no word counts as one of another class", "claims.distillation_tables.OTHER_GRAMMAR", reads(frozenset()))
@control(
    "only the first noun counts, as in a hard label",
    "claims.distillation_tables.FirstWords.nouns",
    of_property(result(lambda nouns: nouns[:1])),
)
@misprint("probability_cup", "0.1015")
def test_soft_labels(claim: Claim, next_tokens: NextTokens) -> None:
    """The printed words after the printed sentence; what comes first after six sentences, and the tail."""
    from lib.distillation.temperature import ids_for_mass

    for word in WORDS:
        record_word(claim, next_tokens, word)
    jug, cup, *others = (claim.given(f"probability_{word}") for word in WORDS)
    claim.measured("cup_over_jug", cup / jug)
    claim.measured("share_of_the_five_printed", sum(others, jug + cup), "1")
    found = {sentence: first_words(next_tokens, sentence, NAMED) for sentence in next_tokens.teacher}
    record_word_classes(claim, next_tokens, found)
    rows = {s: z.softmax(-1) for s, z in next_tokens.teacher.items()}
    claim.measured("second_over_first", {s: float(f.shares[1] / f.shares[0]) for s, f in found.items()}, "1")
    claim.measured("share_of_the_first_five", {s: sum(f.shares) for s, f in found.items()}, "1")
    claim.measured("tokens_that_hold_nine_tenths", {s: ids_for_mass(p, 0.9) for s, p in rows.items()}, "token")
    words_table(claim, next_tokens, found)
    claim.note("Which of the words are no nouns was read off the sibling's first five by hand; the table shows them.")


@claim("distillation.temperature-ratio")
@control("softmax in single precision", "lib.distillation.temperature.log_soften", in_single_precision)
@control("the two likeliest tokens are exchanged", "lib.distillation.temperature.soften", first_two_exchanged)
@control("the entropy falls", "lib.distillation.temperature.entropy_slope", result(lambda slope: -slope))
@misprint("ratio_at_low_temperature", "2.25")
@misprint("ratio_at_high_temperature", "1.49")
def test_temperature_ratio(claim: Claim, next_tokens: NextTokens) -> None:
    """The printed ratio from the printed probabilities, and its root at any temperature on whole rows of the model."""
    from lib.distillation.temperature import entropy_slope, order_reversals, ratio_between, soften, tempered_ratio

    ratio = claim.given("probability_first") / claim.given("probability_third")
    claim.measured("ratio_at_low_temperature", ratio)
    claim.measured("ratio_at_high_temperature", ratio.sqrt())
    off, reversed_pairs, slopes = [], 0, []
    for z in next_tokens.teacher.values():
        first, _, third = z.topk(3).indices.tolist()
        for t in TEMPERATURES:
            root = tempered_ratio(ratio_between(z, first, third, 1.0), t)
            off.append(abs(ratio_between(z, first, third, t) / root - 1))
            reversed_pairs += order_reversals(z, soften(z, t))
            slopes.append(float(entropy_slope(z, t)))
    claim.measured("off_the_root", max(off))
    claim.measured("neighbours_in_reversed_order", reversed_pairs)
    claim.measured("least_slope_of_the_entropy", min(slopes))
    claim.protocol(temperatures=list(TEMPERATURES), rows=len(next_tokens.teacher))


@claim("distillation.teacher-adds")
@control("soft labels carry the first symbol only", LOSSES, told_the_choice)
@control("the two losses are subtracted the other way round", "lib.distillation.text.gain", turned_round)
@control("a temperature of 2 is never applied", LOSSES, always_at_one)
def test_teacher_adds(claim: Claim, school: School) -> None:
    """Small students of the same tokens, each told something else; held-out loss on texts that they were not taught."""
    from lib.distillation.students import Labels
    from lib.distillation.text import gain

    split = school.split()
    true, soft = (school.losses(kind) for kind in (Labels.TRUE, Labels.SOFT))
    teachers = {f"{blocks} blocks": school.losses(Labels.SOFT, blocks=blocks) for blocks in school.blocks}
    claim.measured("over_the_text_by_teacher", {n: gain(school.judged, split, true, x) for n, x in teachers.items()})
    by_size = {}
    for share in SHARES:
        part = school.split(share)
        by_size[part.train.shape[1]] = {
            kind: gain(school.judged, part, school.losses(kind, share=share), school.losses(Labels.SOFT, share=share))
            for kind in (Labels.TRUE, Labels.ARGMAX, Labels.SAMPLED)
        }
    for kind, name in ((Labels.TRUE, "text"), (Labels.ARGMAX, "choice"), (Labels.SAMPLED, "draw")):
        claim.measured(f"over_the_{name}_by_tokens", {tokens: gains[kind] for tokens, gains in by_size.items()})
    few = school.losses(Labels.SOFT, top=NAMED)
    claim.measured("five_symbols_over_the_text", gain(school.judged, split, true, few), "nat per token")
    claim.measured("all_symbols_over_five", gain(school.judged, split, few, soft), "nat per token")
    warm = school.losses(Labels.SOFT, temperature=2.0)
    claim.measured("gain_of_temperature_2", gain(school.judged, split, soft, warm))
    claim.measured("known_languages", chain_gaps(), "nat per token")
    students_table(claim, school, by_size)
    claim.condition("for a teacher who predicts the text better than its own tokens teach the student to")


@claim("distillation.gradient")
@control("the 1/T in front is forgotten", SOFT_GRADIENT, without_its_temperature)
@control("the closed form is rounded to single precision", SOFT_GRADIENT, in_single_precision)
@control("the teacher's choice stands for its distribution", SOFT_GRADIENT, of_the_choice)
@control("labels are drawn blindly", "lib.distillation.gradients.expected_hard_gradient", drawn_blindly)
@control("every share is taken of the first token's", "near_miss_gains", all_over_the_first)
def test_gradient(claim: Claim, next_tokens: NextTokens) -> None:
    """The gradient in closed form on whole rows of the model, and whose share of it grows with the temperature."""
    claim.measured("off_the_closed_form", closed_form_error(next_tokens))
    claim.measured("moves_with_the_uncertainty", moves_with_uncertainty(next_tokens))
    claim.measured("drawn_labels_off_on_average", drawn_label_error(next_tokens))
    claim.measured("scaled_by_its_square_off_its_limit", hot_limit_error(next_tokens))
    given = [claim.given(f"probability_{place}") for place in ("first", "second", "third", "fourth", "fifth")]
    claim.measured("share_of_near_misses", near_miss_gains(given, next_tokens))
    mass_table(claim, next_tokens)
    mass_plot(claim, next_tokens)
    share_table(claim, next_tokens)
    claim.condition("as a ratio to the first token; as a share only among a few tokens, and not always there")


def record_word(claim: Claim, rows: NextTokens, word: str) -> None:
    """Its probability after the printed sentence; with another tokenizer it may be no single token."""
    found = rows.probability(PRINTED, word)
    if found is None:
        claim.not_measured(f"probability_{word}", f"{word!r} is no single token of this model")
    else:
        claim.measured(f"probability_{word}", found)


def record_word_classes(claim: Claim, rows: NextTokens, found: Mapping[str, FirstWords]) -> None:
    """Nouns and other words among the first five of each beginning, where there are words at all."""
    names = "nouns_among_the_first_five", "other_grammar_among_the_first_five"
    if rows.tokenizer is None:
        for name in names:
            claim.not_measured(name, rows.wordless)
        return
    claim.measured(names[0], {sentence: len(first.nouns) for sentence, first in found.items()})
    claim.measured(names[1], {sentence: bool(first.others) for sentence, first in found.items()})


def closed_form_error(rows: NextTokens) -> float:
    """Largest difference of any element from autograd's, over rows and temperatures."""
    from lib.distillation.gradients import autograd_gradient, soft_cross_entropy, soft_gradient

    off = []
    for sentence, teacher in rows.teacher.items():
        for t in (1.0, 2.0):
            loss = partial(soft_cross_entropy, teacher=teacher, temperature=t)
            found = autograd_gradient(loss, rows.student[sentence])
            off.append(float((found - soft_gradient(rows.student[sentence], teacher, t)).abs().max()))
    return max(off)


def moves_with_uncertainty(rows: NextTokens) -> dict[str, bool]:
    """Whether the gradient changes when only the teacher's doubt does: its second token is ruled out."""
    from lib.distillation.gradients import hard_gradient, soft_gradient

    row, student = rows.teacher[next(iter(rows.teacher))], rows.student[next(iter(rows.teacher))]
    sure = row.clone()
    first, second = row.topk(2).indices.tolist()
    sure[second] = row.min()
    soft = (soft_gradient(student, row, 1.0) - soft_gradient(student, sure, 1.0)).abs().max()
    hard = (hard_gradient(student, row.argmax()) - hard_gradient(student, sure.argmax())).abs().max()
    return {"soft label": bool(soft > 0), "and not the label of the first token": bool(hard == 0) and first != second}


def drawn_label_error(rows: NextTokens) -> float:
    """How far the mean gradient of labels drawn from the teacher is from the soft label's; likeliest tokens."""
    from lib.distillation.gradients import expected_hard_gradient, soft_gradient

    off = []
    for sentence, row in rows.teacher.items():
        top = row.topk(min(ROWS_AT_ONCE, len(row))).indices
        teacher, student = row[top], rows.student[sentence][top]
        off.append(float((expected_hard_gradient(student, teacher) - soft_gradient(student, teacher, 1.0)).abs().max()))
    return max(off)


def hot_limit_error(rows: NextTokens) -> float:
    """T² times the gradient beside the difference of centred logits over V: the error as a share of its bound."""
    from lib.distillation.gradients import hot_limit, hot_limit_error_bound, soft_gradient

    shares = []
    for sentence, teacher in rows.teacher.items():
        student = rows.student[sentence]
        off = (HOT**2 * soft_gradient(student, teacher, HOT) - hot_limit(student, teacher)).abs().max()
        shares.append(float(off / hot_limit_error_bound(student, teacher, HOT)))
    return max(shares)


def near_miss_gains(given: list[Estimate], rows: NextTokens) -> dict[str, Estimate | float]:
    """Share of the runners-up at T = 2 over that at T = 1, by what the share is of; above 1 they gain.

    Of the printed five: exact, alone; at most, among all (whatever the unprinted ones are). Of the model's rows: exact.
    """
    import torch

    from lib.distillation.temperature import mass_of, share_bound, soften

    top = [float(p.value) for p in given]
    five = torch.tensor(top, dtype=torch.float64).log()
    most = sum(share_bound(top, i, 2.0) for i in range(1, NAMED))
    gains: dict[str, Estimate | float] = {
        "over the first token": float((given[0] / given[1]).sqrt().value),
        "of the five printed tokens": mass_of(soften(five, 2.0), NEAR_MISSES) / mass_of(soften(five, 1.0), NEAR_MISSES),
        "of all, printed sentence, at most": most / sum(top[1:]),
    }
    for sentence, row in rows.teacher.items():
        near, few = row.topk(NAMED).indices[1:], row.topk(FEW_CLASSES).values
        gains[f"of all, {sentence!r}"] = mass_of(soften(row, 2.0), near) / mass_of(soften(row, 1.0), near)
        gains[f"of ten, {sentence!r}"] = mass_of(soften(few, 2.0), NEAR_MISSES) / mass_of(soften(few, 1.0), NEAR_MISSES)
    return gains
