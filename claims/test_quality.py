"""What quantization costs: perplexity, a battery of questions, agreement, each scheme beside the unquantized model.

Every scheme is visited once per session (fixtures.quality): 16 pieces of unpublished English prose with 128 scored
tokens each, 12 pieces of three other texts with 40 each, 144 tokens that the model wrote itself, 16 questions with and
without the repetition penalty. `--thorough` adds longer windows, the large battery, and every scheme to everything.
Intervals are of whole pieces of text: the tokens of one piece are not independent.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from claims import quality_faults as faults
from claims.quality_faults import ANSWERED, CONTRASTS, QUALITY, READINGS, ROW
from claims.weights_faults import with_embedding
from fixtures.quality import CHAPTER_ROWS, REFERENCE
from fixtures.quality_workload import BOOK, LARGE, MAIN, NO_PENALTY, SHORT, default_penalty
from lib.intervals import Estimate, as_estimate
from lib.unmeasurable import Unmeasurable
from reports.claim import Claim, claim
from reports.controls import control, misprint
from reports.plants import exchanged, mistaken, scaled, shifted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor
    from transformers import PreTrainedModel

    from fixtures.corpora import Corpus
    from fixtures.quality_readings import Quality

    Weights = Mapping[str, Tensor]

LADDER = ("int4-tensor", "int4-row", "int4-g128", "nf4-b64")
ROWS = (REFERENCE, *CHAPTER_ROWS)
SAME_BLOCK = {128: ("int4-g128", "nf4-b128"), 64: ("int4-g64", "nf4-b64")}
TRUE_SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of right answers: from guessing one of two to one miss in twenty
BYTES_PER_WEIGHT = {"fp32": 4, "fp16": 2}


def gaps(claim: Claim) -> tuple[Estimate, Estimate]:
    """The two printed gaps between INT8 per row and the reference, each positive in the direction it is told in."""
    ours = claim.given("perplexity_reference") - claim.given("perplexity_int8_row")
    return ours, claim.given("public_domain_perplexity_int8_row") - claim.given("public_domain_perplexity_reference")


def record_perplexity(claim: Claim, quality: Quality, scheme: str) -> None:
    """One printed perplexity beside ours; of a broken model there is none, and the other rows still count."""
    name = f"perplexity_{scheme.replace('-', '_')}"
    if quality.is_number(scheme, MAIN):
        claim.measured(name, quality.perplexity(scheme, MAIN), "1")
    elif name in claim.statement.figures:
        claim.not_measured(name, f"the loss of {scheme} on {MAIN} is not a number")


@claim("quality.quality-table")
@control("the last token of every window is not counted", f"{QUALITY}.texts", faults.last_token_unscored)
@control("the prompts count as the model's own tokens", f"{QUALITY}.own_tokens", faults.prompts_counted)
@misprint("perplexity_tokens", "2,049")
@misprint("questions", "17")
@misprint("measures", "4")
def test_quality_table(claim: Claim, quality: Quality) -> None:
    """Every row of the chapter's table, three measures each, with intervals, on every text."""
    from claims.quality_tables import agreement_table, chapter_table, corpora_table

    claim.measured("perplexity_tokens", quality.texts[MAIN][:, 1:].numel())
    claim.measured("questions", len(quality.table.quizzes[SHORT].questions))
    claim.measured("agreement_tokens", quality.own_tokens)
    claim.measured("measures", len({"perplexity", "battery", "agreement"}))
    for scheme in ROWS:
        record_perplexity(claim, quality, scheme)
    claim.table(**chapter_table(quality, claim.statement))
    claim.table(**corpora_table(quality))
    claim.table(**agreement_table(quality))
    claim.protocol(**quality.protocol())
    claim.note(
        "Windows of 128 tokens begin without context: perplexities are higher than over longer ones, ratios carry over."
    )
    claim.note("Only of our own prose, which is unpublished, is it known that the model was not trained on it.")


@claim("quality.int8-row-free")
@control("the two models' tokens are not paired", f"{READINGS}.cost", faults.unpaired)
@control("INT8 per row costs 0.006 nats more", f"{READINGS}.cost", shifted(0.006))
@control("INT8 per row is INT8 with one scale", ROW, mistaken({"int8-row": "int8-tensor"}))
@misprint("perplexity_int8_row", "22.95")
@misprint("public_domain_perplexity_int8_row", "22.17")
def test_int8_row_free(claim: Claim, quality: Quality) -> None:
    """INT8 per row beside the reference on every text, and the smallest gap that so many paired tokens can show."""
    for prefix, text in {"": MAIN, "public_domain_": BOOK}.items():
        claim.measured(f"{prefix}perplexity_int8_row", quality.perplexity("int8-row", text))
        claim.measured(f"{prefix}perplexity_reference", quality.perplexity(REFERENCE, text))
    own, costs, (gap, other) = quality.same_choice("int8-row", quality.own), quality.costs("int8-row"), gaps(claim)
    claim.measured("agreeing_tokens", int(own.sum()))
    claim.measured("agreement_tokens", own.numel())
    claim.measured("reference_over_gap", claim.given("perplexity_reference") / gap)
    claim.measured("public_domain_gap_over_gap", other / gap)
    claim.measured("direction_reverses", gap.low > 0 and other.low > 0)
    claim.measured("cost", quality.pooled_cost_bound("int8-row"))
    claim.measured("no_cost_found", {text: found.low <= 0 for text, found in costs.items()})
    claim.measured("gap_is_noise", {text: found.contains(0) for text, found in costs.items()})
    claim.measured("largest_noise", (costs[MAIN].high - costs[MAIN].low) / 2)
    claim.measured("gap_found_four_times_in_five", quality.detectable_gap("int8-row", MAIN), "nat per token")
    claim.measured("agreement", quality.agreements("int8-row"), "1")
    claim.measured("divergence", quality.divergence("int8-row", BOOK), "nat")
    claim.measured("cost_by_text", costs, "nat per token")


@claim("quality.int8-memory")
@control("the embedding is quantized as well", "lib.weight_stats.projection_weights", with_embedding)
@control("8-bit codes are held in 16", "lib.quantization.schemes.Scheme.bits_per_weight", scaled(2))
@misprint("int8_over_fp32", "0.26")
def test_int8_memory(claim: Claim, model: PreTrainedModel) -> None:
    """Bytes of weights when exactly the projections are INT8 with an fp16 scale per row; no activations, no cache."""
    from lib.quantization.packing import resident_bytes
    from lib.quantization.schemes import SCHEMES
    from lib.weight_stats import projection_weights

    projections, parameters = projection_weights(model), dict(model.named_parameters())
    for name, width in BYTES_PER_WEIGHT.items():
        found = resident_bytes(SCHEMES["int8-row"], projections, parameters, width)
        claim.measured(f"int8_over_{name}", {part: now / before for part, (now, before) in found.items()})
    claim.condition("of the quantized matrices alone; the embedding and the norms stay as they are")


@claim("quality.int8-tensor-cheap")
@control("INT8 with one scale is INT8 per row", ROW, mistaken({"int8-tensor": "int8-row"}))
@control("INT4 with one scale answers the questions", ANSWERED, mistaken({"int8-tensor": "int4-tensor"}))
@misprint("bits", "7")
@misprint("scales_per_matrix", "2")
def test_int8_tensor_cheap(claim: Claim, quality: Quality) -> None:
    """One scale per matrix at 8 bits beside the reference and beside a scale per row, on every text and the battery."""
    from lib.quantization.schemes import SCHEMES

    scheme = SCHEMES["int8-tensor"]
    claim.measured("bits", scheme.bits)
    claim.measured("scales_per_matrix", scheme.scale_count(896, 4864))
    difference = quality.perplexity(scheme.slug, MAIN).value - quality.perplexity(REFERENCE, MAIN).value
    claim.measured("perplexity_cost", difference)
    claim.measured("cost", quality.costs(scheme.slug))
    claim.measured("tensor_over_row", quality.costs(scheme.slug, "int8-row"))
    penalties = {"penalty on": default_penalty(quality.table.model), "penalty off": NO_PENALTY}
    lost = {name: quality.duel(REFERENCE, scheme.slug, SHORT, p).difference for name, p in penalties.items()}
    claim.measured("battery_share_lost", lost)


@claim("quality.int4-tensor-destroys")
@control("INT4 with one scale is INT4 per row", ROW, mistaken({"int4-tensor": "int4-row"}))
@control("two, not e, is raised to the loss in nats", f"{READINGS}.perplexity_of", faults.powers_of_two)
@control("a scheme's choices are compared with its own", f"{READINGS}.same_choice", faults.with_itself)
@misprint("worst_over_best", "14e6")
def test_int4_tensor_destroys(claim: Claim, quality: Quality) -> None:
    """INT4 with one scale per matrix beside a model that gives every token the same chance."""
    claim.measured("perplexity", quality.perplexity("int4-tensor", MAIN))
    claim.measured("worst_over_best", claim.given("perplexity") / claim.given("perplexity_best"))
    vocabulary = quality.table.model.config.get_text_config().vocab_size
    claim.measured("over_uniform_guess", {t: quality.perplexity("int4-tensor", t) / vocabulary for t in quality.texts})
    claim.measured("agreeing_choices", max(found.value for found in quality.agreements("int4-tensor").values()))
    claim.measured("worst_over_best_here", quality.ratio("int4-tensor", "nf4-b64"), "1")


@claim("quality.granularity-is-all")
@control("NF4 has INT4's levels", f"{QUALITY}.cost", faults.with_int4s_levels)
@control("scales per row and per group are exchanged", ROW, exchanged("int4-row", "int4-g128"))
@misprint("group", "64")
def test_granularity_is_all(claim: Claim, quality: Quality, projections: Weights) -> None:
    """The four rows in order on every text; then block and levels of the last step apart, at equal blocks and bits."""
    from claims.quality_tables import nf4_gain_table
    from lib.quantization.schemes import SCHEMES

    for name, scheme in {"tensor": LADDER[0], "row": LADDER[1], "group_128": LADDER[2]}.items():
        claim.measured(f"perplexity_int4_{name}", quality.perplexity(scheme, MAIN))
    claim.measured("perplexity_nf4", quality.perplexity(LADDER[3], MAIN))
    claim.measured("bits", {scheme: SCHEMES[scheme].bits for scheme in LADDER})
    claim.measured("group", SCHEMES["int4-g128"].group)
    claim.measured("gain", {f"{a} → {b}": quality.pooled_cost(a, b) for a, b in pairwise(LADDER)})
    by_text = {f"{a} → {b}, {t}": quality.cost(a, b, t) for a, b in pairwise(LADDER) for t in quality.texts}
    claim.measured("gain_by_text", by_text, "nat per token")
    claim.measured("levels_gain", {f"{size}": quality.cost(*pair, MAIN) for size, pair in SAME_BLOCK.items()})
    claim.measured("bits_with_scales", {s: SCHEMES[s].bits_per_weight(896, 4864) for s in LADDER}, "bit")
    claim.table(**nf4_gain_table(quality, projections))
    claim.note("Four bits are the codes': with their scales the rows take more, and NF4 changes the levels too.")


@claim("quality.battery-blunt")
@control("INT4 in groups is INT4 with one scale", ROW, mistaken({"int4-g128": "int4-tensor"}))
@control("the exact interval is taken", "lib.coverage.bootstrap_binomial_interval", faults.exact_interval)
@misprint("perplexity_gap", "6.6")
@misprint("perplexity_nf4", "24.45")
@misprint("questions", "17")
def test_battery_blunt(claim: Claim, quality: Quality) -> None:
    """What 16 questions tell of NF4 and INT4 in groups of 128, what a larger battery does; does the interval cover?"""
    from lib.coverage import binomial_coverage, bootstrap_binomial_interval
    from lib.proportions import detectable_difference, fewest_discordant
    from lib.quantization.schemes import SCHEMES

    penalties = {"penalty on": default_penalty(quality.table.model), "penalty off": NO_PENALTY}
    found = {name: quality.duel("nf4-b64", "int4-g128", SHORT, penalty) for name, penalty in penalties.items()}
    claim.measured("perplexity_gap", claim.given("perplexity_int4_group_128") - claim.given("perplexity_nf4"))
    claim.measured("group", SCHEMES["int4-g128"].group)
    claim.measured("questions_apart", abs(found["penalty on"].lead))
    claim.measured("questions", len(quality.table.quizzes[SHORT].questions))
    claim.measured("p_value", {name: duel.p_value for name, duel in found.items()})
    claim.measured("fewest_questions_apart", fewest_discordant())
    coverage = {f"{p}": binomial_coverage(bootstrap_binomial_interval, 16, p) for p in TRUE_SHARES}
    claim.measured("bootstrap_coverage", coverage)
    claim.condition("the model is right about half of the time, as far as the interval goes; the conclusion needs none")
    shown = {f"{n} questions": detectable_difference(n, found["penalty off"].discordance) for n in (16, 200, 370, 1000)}
    claim.measured("lead_that_a_battery_shows", shown, "1")
    if LARGE in quality.table.quizzes:
        claim.measured("lead_on_large_battery", quality.duel("nf4-b64", "int4-g128", LARGE).difference, "1")


@claim("quality.penalty-off")
@control("the penalty is on in both runs", ANSWERED, faults.penalty_always)
@control("the penalty is on in neither run", ANSWERED, faults.penalty_never)
@control("one question goes to one row, one to the other", f"{QUALITY}.duel", faults.one_question_each)
def test_penalty_off(claim: Claim, quality: Quality) -> None:
    """The battery of the two rows with the model's penalty and without, and proof of which was active."""
    on, rows = default_penalty(quality.table.model), ("nf4-b64", "int4-g128")
    changed = {penalty: sum(quality.changed_choices(row, penalty) for row in rows) for penalty in (on, NO_PENALTY)}
    leads = {penalty: quality.duel(*rows, SHORT, penalty).lead for penalty in (on, NO_PENALTY)}
    claim.measured("choices_changed_on", changed[on])
    claim.measured("choices_changed_off", changed[NO_PENALTY])
    claim.measured("answers_moved", sum(quality.moved_answers(row, on) for row in rows))
    claim.measured("swapped_rows", 2 if leads[on] * leads[NO_PENALTY] < 0 else 0)
    claim.measured("places_changed", leads[on] * leads[NO_PENALTY] < 0)
    claim.measured("lead_of_nf4", {f"penalty {penalty}": lead for penalty, lead in leads.items()}, "question")
    configured = getattr(quality.table.model.generation_config, "repetition_penalty", None) == on
    claim.protocol(
        penalty=on, penalty_from="the model's files" if configured else "the chapter's model; ours names none"
    )


@claim("quality.same-tokenizer")
@control("the language model's bits are per token", f"{QUALITY}.bits_per_byte", faults.per_token)
@control("the byte model is given tokens as long", f"{QUALITY}.byte_pairs", faults.per_long_token)
def test_same_tokenizer(claim: Claim, quality: Quality, corpora: dict[str, Corpus]) -> None:
    """How often a byte follows another, as a language model: beside ours per token of each, per byte of one text."""
    pairs = quality.byte_pairs(corpora[MAIN])
    per_token = pairs.perplexity / quality.perplexity(REFERENCE, MAIN).value
    per_byte = pairs.bits_per_byte / quality.bits_per_byte(REFERENCE, MAIN)
    claim.measured("lower_per_token", per_token)
    claim.measured("worse_per_byte", per_byte)
    claim.measured("ranking_reversed", per_token < 1 < per_byte)
    claim.measured("bits_per_byte", {t: quality.bits_per_byte(REFERENCE, t) for t in quality.texts}, "bit")
    claim.measured("perplexity_by_place_in_window", quality.perplexity_by_place(MAIN), "1")
    claim.note("Bits per byte compare across tokenizers. One tokenizer is needed, not enough: the window counts too.")


@claim("quality.agreement-sharpest")
@control("losses are not paired", f"{READINGS}.cost", faults.unpaired)
@control("one question tells two rows apart", f"{CONTRASTS}.Duel.p_value", faults.any_lead_tells)
@control("the destroyed row is left out", f"{QUALITY}.falls", faults.destroyed_row_left_out)
@control("a continuation counts once", f"{READINGS}.effective_sample_size", faults.one_per_continuation)
@misprint("agreement_observations", "143")
@misprint("battery_observations", "17")
def test_agreement_sharpest(claim: Claim, quality: Quality) -> None:
    """Are the 144 choices independent, how many pairs of rows does each measure tell apart, and how does each fall?"""
    told = quality.pairs_told_apart(CHAPTER_ROWS)  # the reference agrees with itself by definition
    claim.measured("agreement_observations", quality.same_choice("int8-row", quality.own).numel())
    claim.measured("battery_observations", len(quality.table.quizzes[SHORT].questions))
    worth = quality.effective_observations(CHAPTER_ROWS)
    if not worth:
        raise Unmeasurable("on this model every row chooses as the reference does, always or never")
    claim.measured(
        "design_effect", {scheme: as_estimate(quality.own_tokens) / found for scheme, found in worth.items()}
    )
    claim.measured("effective_observations", worth, "token")
    prose = quality.design_effects(s for s in CHAPTER_ROWS if s != "int4-tensor")
    claim.measured("design_effect_on_prose", prose, "1")
    sizes = {"as in the table": (144, 2048), "of the same 144": (144, 144), "of the same 2048": (2048, 2048)}
    lead = {name: told[f"agreement, {a}"] - told[f"loss, {b}"] for name, (a, b) in sizes.items()}
    claim.measured("pairs_more_than_perplexity", lead)
    claim.measured("pairs_more_than_battery", told["agreement, 144"] - told["battery, 16"])
    claim.measured("pairs_told_apart", told, "pair")
    falls = {"all": quality.falls(ROWS), "without the worst": quality.falls(r for r in ROWS if r != "int4-tensor")}
    jumps = {name: fall.jump_over_batterys for name, fall in falls.items() if fall.both_fall}
    if jumps:
        claim.measured("largest_step_over_batterys", jumps)
    else:
        claim.not_measured("largest_step_over_batterys", "this model's battery does not fall along the rows")


@claim("quality.corpus-swap")
@control("the main text is read instead of the others", f"{QUALITY}.perplexity", faults.always_main)
@control("two rows are exchanged on the other texts", f"{QUALITY}.perplexity", faults.last_two_exchanged_elsewhere)
@control("differences are taken the wrong way round", f"{QUALITY}.cost", scaled(-1))
def test_corpus_swap(claim: Claim, quality: Quality) -> None:
    """The order of the rows on every text beside that on the first one; another text, other figures."""
    others = [text for text in quality.texts if text != MAIN]
    claim.measured("ladder_order", {text: quality.order(LADDER, text) == [*reversed(LADDER)] for text in others})
    claim.measured("reversals", {text: quality.reversals(ROWS, text) for text in others})
    printed = {t: {f"{quality.perplexity(row, t).value:.2f}" for row in ROWS} for t in quality.texts}
    claim.measured("other_figures", {text: not printed[text] & printed[MAIN] for text in others})
    for text in quality.texts:
        claim.note(f"{text}, from best to worst: {', '.join(quality.order(ROWS, text))}.")
