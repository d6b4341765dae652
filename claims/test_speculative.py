"""Speculative decoding: what it leaves unchanged, what is accepted, and what that is worth once it is paid for.

The drafts are the chapter's quantized selves, simulated in fp32 weights, so each costs as much as the target: what a
cheaper one would gain is the formulas' part. Torch is imported by the tests that need tensors.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from claims import speculative_faults as faults
from claims.speculative_runs import (
    DRAWS,
    LOOKED_UP,
    NARROW,
    PLAIN,
    REPLY,
    SEED,
    SELF,
    SETTINGS,
    TREE_DRAFT,
    WORST,
    WORST_SCHEME,
    differing,
    own_draft_in_half,
    runs_or_reason,
    timed_replies,
    two_trees,
)
from claims.speculative_tables import (
    SHOWN_ACCEPTANCES,
    acceptance_table,
    paid_table,
    rates,
    runs_beside_formula,
    speedup_plot,
    speedup_table,
    tail_plot,
)
from claims.timed import over_first, roofline, until_settled
from claims.timed_faults import RATIO, per_step, turned_round
from fixtures.quality import CHAPTER_ROWS
from fixtures.speculation import CHAPTER_DRAFT, DRAFTS, draft_tokens
from fixtures.timing import CACHED, POSITIONS
from lib.intervals import Estimate
from reports.claim import Claim, claim
from reports.controls import control, misprint
from reports.plants import of_property, reads, shifted
from reports.plots import Axis, Curve

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest
    from transformers import PreTrainedTokenizerBase

    from fixtures.speculation import Speculations
    from fixtures.timing import Timings

SEVERAL = 4  # tokens: one or two are a draft too, but what the statement speaks of is several
SAMPLED_DRAFT, SAMPLED_PROMPT = "int4-row", 0
COINS = 200_000
LONG = 8  # drafted tokens, the chapter's longer guess
COSTS = (0, Fraction(1, 100), Fraction(1, 20), Fraction(1, 10), Fraction(1, 5), Fraction(1, 2))
LOW, HIGH = Fraction(3, 10), Fraction(9, 10)
TIMED_BUDGET_S = 16.0


@claim("speculative.verify-is-cheap")
@control("the time of a pass is divided by its positions", RATIO, per_step, slow=True)
def test_verify_is_cheap(claim: Claim, timings: Timings) -> None:
    """One pass over a draft and the token after it, all their logits, against one position; 64 cached tokens."""
    from lib.step_actions import pass_cost

    rounds, drafts = timings.positions, [n - 1 for n in POSITIONS[1:]]

    def cost(of: Sequence[int]) -> dict[int, Estimate]:
        return {draft: rounds.ratio(str(draft + 1), over="1") for draft in of}

    several = [draft for draft in drafts if draft >= SEVERAL]
    until_settled(claim, rounds, {"cost_of_a_pass": lambda: cost(several)})
    claim.measured("cost_of_one_or_two", cost([draft for draft in drafts if draft < SEVERAL]), unit="1")
    limits = timings.limits
    passes = {n - 1: pass_cost(timings.model, CACHED, positions=n, logits=n) for n in POSITIONS}
    least = {draft: limits.seconds(c.read_bytes, c.flops, timings.model.dtype) for draft, c in passes.items()}
    by_roofline = {draft: least[draft] / least[0] for draft in drafts}
    claim.measured("cost_by_the_roofline", by_roofline, unit="1")
    claim.measured("positions_until_arithmetic_dominates", timings.knee, unit="token")
    last = POSITIONS[-1]
    roofline(claim, timings, rounds, one=("1", passes[0]), longest=(str(last), passes[last - 1]))
    claim.plot(
        "What verifying a draft costs",
        x=Axis("draft", "token"),
        y=Axis("time of a pass over that of one position", name_id="waktu satu pass dibanding satu posisi"),
        curves=[
            Curve("measured", cost(drafts), "terukur"),
            Curve("by the roofline", by_roofline, "menurut roofline", True),
        ],
        title_id="Biaya memverifikasi satu draft",
    )


@claim("speculative.greedy-exact")
@control(
    "of one draft, the target's second best is kept as well",
    "fixtures.speculation.Speculations.run",
    faults.run_with_second_best("int4-row"),
    slow=True,
)
def test_greedy_exact(claim: Claim, speculations: Speculations, tokenizer: PreTrainedTokenizerBase) -> None:
    """54 prompts, 7 drafts, fp32, against plain decoding step by step; the model as its own draft in 16 bits."""
    import torch

    lead, shift = min(map(speculations.closest, DRAFTS)), max(map(speculations.moved, DRAFTS))
    coarse = own_draft_in_half(speculations.target, tokenizer, torch.bfloat16)
    single = differing(map(speculations.differing, DRAFTS), decided=lead > 2 * shift)
    claim.measured("replies_that_differ", {"float32": single, "bfloat16": coarse.differing})
    claim.measured(
        "rounds_other_than_by_the_targets_choice", sum(map(speculations.rounds_unlike_agreement, CHAPTER_ROWS))
    )
    claim.measured("replies", sum(speculations.differing(draft)[1] for draft in DRAFTS), "reply")
    claim.measured("prompts", speculations.prompts, "prompt")
    claim.measured("closest_call_fp32", lead, "logit")
    claim.measured("lead_moved_by_the_shape_of_a_pass_fp32", shift, "logit")
    claim.measured("lead_where_replies_part_bf16", coarse.leads, "logit")
    claim.measured("acceptance_of_itself_bf16", coarse.acceptance, "1")
    claim.protocol(drafted={draft: draft_tokens(draft) for draft in DRAFTS})


@claim("speculative.sampling-exact")
@control("the chance p/q has single precision", "lib.speculative.sampling.acceptance", faults.in_single_precision)
@control("what is refused is drawn anew from p", "lib.speculative.sampling.residual", faults.from_the_target)
@control("a wrong rule is the right one", "lib.speculative.wrong_rules.StaleQ", faults.the_right_one)
def test_sampling_exact(claim: Claim, speculations: Speculations) -> None:
    """Replies of three tokens by two models' own chances, enumerated and drawn; wrong rules beside the right one."""
    from lib.speculative.sampling import Sampled
    from lib.speculative.wrong_rules import ArgmaxMatch, FiltersAfterwards, NoResidual, StaleQ

    trees = two_trees(speculations, SAMPLED_DRAFT, SAMPLED_PROMPT)
    wrong = (ArgmaxMatch, NoResidual, StaleQ, FiltersAfterwards)
    claim.measured("error_of_a_chance", {name: trees.law_error(s, Sampled) for name, s in SETTINGS.items()})
    claim.measured("error_under_wrong_rules", {rule.__name__: trees.law_error(NARROW, rule) for rule in wrong})
    claim.measured("p_value", trees.p_value(NARROW, Sampled))
    claim.measured("p_value_under_wrong_rules", {rule.__name__: trees.p_value(NARROW, rule) for rule in wrong})
    claim.measured("texts_scored", trees.texts, "text")
    claim.protocol(draft=SAMPLED_DRAFT, tokens=REPLY, drafted=TREE_DRAFT, draws=DRAWS, seed=SEED)


@claim("speculative.alpha-is-agreement")
@control("what follows a refused token is not counted", "rates", faults.only_what_was_judged, slow=True)
@control("agreements are read a position late", "lib.speculative.decoding.replayed", faults.a_position_late, slow=True)
@misprint("positions", "143", slow=True)
def test_alpha_is_agreement(claim: Claim, speculations: Speculations) -> None:
    """Every quantized self drafts for the tokens of the agreement column; the rate of acceptance by each definition."""
    runs = {draft: speculations.run(draft) for draft in CHAPTER_ROWS}
    agreement = {draft: speculations.agreement(draft) for draft in CHAPTER_ROWS}
    found = {draft: rates(speculations, draft) for draft in CHAPTER_ROWS}
    claim.measured("positions", {draft: run.positions for draft, run in runs.items()})
    claim.measured("inside_the_columns_interval", {
        definition: all(agreement[draft].contains(found[draft][definition]) for draft in CHAPTER_ROWS)
        for definition in found[CHAPTER_ROWS[0]]
    })  # fmt: skip
    claim.measured("verdicts_other_than_the_columns", sum(map(speculations.rounds_unlike_agreement, CHAPTER_ROWS)))
    for definition in found[CHAPTER_ROWS[0]]:
        claim.measured(definition, {draft: found[draft][definition] for draft in CHAPTER_ROWS}, "1")
    claim.measured("agreement", agreement, "1")
    acceptance_table(claim, speculations)


@claim("speculative.expected-tokens")
@control("the target's own token is left out", "lib.speculative.formulas.expected_tokens", shifted(-1), slow=True)
@control(
    "tokens that nobody looked at count as refused",
    "lib.speculative.decoding.Round.judged",
    of_property(lambda _: lambda self: self.proposed),
    slow=True,
)
@misprint("forward_passes", "4", slow=True)
@misprint("kept_tokens", "1.3", slow=True)
def test_expected_tokens(claim: Claim, request: pytest.FixtureRequest) -> None:
    """The formula at the printed acceptance; the same by coins; and beside runs, where acceptances may cluster."""
    from lib.speculative.formulas import expected_tokens, simulated_tokens

    acceptance = Fraction(claim.given("acceptance").value) / 100
    tokens, coins = (
        expected_tokens(acceptance, CHAPTER_DRAFT),
        simulated_tokens(float(acceptance), CHAPTER_DRAFT, COINS),
    )
    claim.measured("forward_passes", CHAPTER_DRAFT + 1)
    claim.measured("kept_tokens", {"with the target's own": tokens, "drafted ones": tokens - 1})
    claim.measured("by_coins", float(coins.mean()), "token")
    claim.measured("tokens_if_all_are_accepted", float(expected_tokens(1.0, CHAPTER_DRAFT)), "token")
    price = CHAPTER_DRAFT * Fraction(1, 5) + 1
    claim.measured("price_of_these_passes_with_a_draft_at_a_fifth", price, "pass of the target")
    claim.condition("the token that the target adds itself is counted")
    if isinstance(speculations := runs_or_reason(request), str):
        claim.not_measured("runs_over_formula_of_acceptance", speculations)
    else:
        runs_beside_formula(claim, speculations)


@claim("speculative.net-speedup")
@control("the draft runs once more than it has tokens", faults.NET_SPEEDUP, faults.one_pass_more)
@misprint("high_speedup", "3.41")
@misprint("low_speedup", "0.80")
def test_net_speedup(claim: Claim) -> None:
    """Both printed speed-ups solved for the draft's cost: is there one that gives both? Then the whole table."""
    from lib.speculative.formulas import common_cost, draft_cost, net_speedup

    draft = int(claim.given("draft_tokens").value)
    rates = {name: Fraction(claim.given(f"{name}_acceptance").value) / 100 for name in ("high", "low")}
    cells = {name: (rate, draft, claim.statement.figures[f"{name}_speedup"].interval()) for name, rate in rates.items()}
    cost = common_cost(list(cells.values()))
    claim.measured("one_cost_behind_both", cost is not None)
    for name, rate in rates.items():
        claim.measured(f"{name}_speedup", net_speedup(rate, draft, Fraction(1, 10)))
        claim.measured(f"cost_behind_the_{name}_one", draft_cost(*cells[name]), "pass of the target")
        claim.measured(f"{name}_speedup_with_a_draft_at_a_fifth", net_speedup(rate, draft, Fraction(1, 5)), "1")
    claim.measured("four_tokens_at_a_fifth_low", net_speedup(rates["low"], CHAPTER_DRAFT, Fraction(1, 5)), "1")
    claim.note(
        "Both are of a draft at a tenth of the target's cost, which no sentence names; the one named is a fifth."
    )
    speedup_table(claim)
    speedup_plot(claim)


@claim("speculative.can-be-slower")
@control("a draft is paid for once, however long", faults.NET_SPEEDUP, faults.one_pass_in_all, slow=True)
@control(
    "a token is kept whatever it is", "lib.speculative.sampling.Greedy.judge", faults.keeps_among_best(10**9), slow=True
)
@control("the two times are compared the other way round", RATIO, turned_round, slow=True)
@misprint("draft_over_target", "0.1", slow=True)
def test_can_be_slower(claim: Claim, request: pytest.FixtureRequest) -> None:
    """The formula at the printed acceptance and cost, by draft length; then a reply that is really timed, in turn."""
    from lib.speculative.formulas import break_even, net_speedup

    acceptance, cost = Fraction(claim.given("acceptance").value) / 100, Fraction(claim.given("draft_over_target").value)
    speedups = {n: net_speedup(acceptance, n, cost) for n in range(1, LONG + 1)}
    claim.measured("speedup", speedups[CHAPTER_DRAFT])
    claim.measured("speedup_by_drafted_tokens", speedups, "1")
    claim.measured(
        "acceptance_to_break_even", {n: break_even(n, float(cost)) for n in (1, 2, CHAPTER_DRAFT, LONG)}, "1"
    )
    claim.note(
        "Not a property of the draft: with one drafted token it gains at the same acceptance, 1.08 times; with two "
        "it is nearly even. Such an acceptance is a reason to shorten the guess before dropping it."
    )
    if isinstance(speculations := runs_or_reason(request), str):
        claim.not_measured("time_over_plain", speculations)
        claim.not_measured("same_reply", speculations)
    else:
        timed_beside_formula(claim, speculations, request.getfixturevalue("timings"))


def timed_beside_formula(claim: Claim, speculations: Speculations, timings: Timings) -> None:
    """A reply by plain decoding and with three drafts, in turn; then the chapter's cells with verification as timed."""
    with speculations.drafting(WORST_SCHEME) as worst:
        replies = timed_replies(speculations.target, worst, speculations.table.tokenizer)
        rounds = timings.rounds(replies)
        until_settled(claim, rounds, {"time_over_plain": lambda: rounds.ratio(WORST, over=PLAIN)}, TIMED_BUDGET_S)
        for reply in replies.values():
            if reply.last is None:  # beside another process nothing was timed
                reply()
    claim.measured("time_over_plain_by_draft", over_first(rounds, PLAIN, (WORST, SELF, LOOKED_UP)), "1")
    claim.measured("same_reply", len({reply.last.tokens for reply in replies.values() if reply.last}) == 1)
    claim.measured("accepted_of_judged", {name: replies[name].acceptance for name in (WORST, SELF, LOOKED_UP)}, "1")
    claim.measured("passes_of_the_target", {name: reply.passes for name, reply in replies.items()}, "pass")
    paid_table(claim, timings.positions)


@claim("speculative.long-drafts")
@control("looked at and refused", "lib.speculative.formulas.reached", faults.looked_at_and_refused)
@control("a low acceptance is 35 %, not 30", "LOW", reads(Fraction(35, 100)))
def test_long_drafts(claim: Claim) -> None:
    """Eight drafted tokens against four, by cost; and how likely the eighth is to be looked at, by acceptance."""
    from lib.speculative.formulas import net_speedup, overtaking, reached

    def gain(acceptance: Fraction) -> dict[str, float]:
        pairs = {c: [float(net_speedup(float(acceptance), n, float(c))) for n in (CHAPTER_DRAFT, LONG)] for c in COSTS}
        return {f"{float(c)}": long / short for c, (short, long) in pairs.items()}

    claim.measured("gain_at_low_acceptance", gain(LOW))
    claim.measured("eighth_looked_at", {a: float(reached(a, LONG)) for a in (*SHOWN_ACCEPTANCES, float(HIGH))})
    claim.measured("gain_at_high_acceptance", gain(HIGH), "1")
    claim.measured(
        "acceptance_from_which_eight_beat_four",
        {f"{float(c)}": overtaking(CHAPTER_DRAFT, LONG, float(c)) for c in COSTS},
        "1",
    )
    tail_plot(claim)
