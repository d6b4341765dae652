"""Prefill and decode, as arithmetic of the printed timings and as ratios measured on this machine.

Every timed claim is a ratio within interleaved rounds (lib/timing); seconds are shown, never compared. Batch 1, fp32,
the model's own attention, one row of logits per pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from claims.timed import roofline, share_added, step_by_step, until_settled
from claims.timed_faults import RATIO, longer, mistaken, never_longer, of_one, taken_as, turned_round
from claims.timed_tables import MS_PER_S, decode_table, prefill_table
from fixtures.timing import (
    CACHED,
    CHAPTER_PROMPT,
    CONTEXTS,
    LONG_LAYERS,
    LONG_PROMPTS,
    PROMPTS,
    STEP,
    STREAMED,
    TALK,
    TURN,
)
from lib.intervals import Estimate
from reports.claim import Claim, claim
from reports.controls import control, misprint
from reports.plants import reads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fixtures.timing import Timings
    from reports.judge import Scalar

REPLY_TOKENS = 48  # of the same run, printed in kv-cache.ninefold; the first of them comes out of the prefill
NEAR_BUDGET_S, FAR_BUDGET_S = 24.0, 12.0  # a tenth of a step is a fine difference; far out there is little doubt
BEYOND_BUDGET_S = 25.0  # two passes of some seconds each, whose ratio is not far from one
SHORTEST, LONGEST = CONTEXTS[0], CONTEXTS[1]  # of the chapter's table; the longer ones look for its end
OVER_SHORTEST = "fixtures.timing.Timings.over_shortest"


@claim("two-phases.phase-arithmetic")
@control("the token out of the prefill counts as a decode step", "REPLY_TOKENS", reads(REPLY_TOKENS + 1))
@misprint("decode_over_prompt", "6.5")
@misprint("decode_ms", "165")
@misprint("prefill_s", "1.0262")
def test_phase_arithmetic(claim: Claim) -> None:
    """Whether the derived figures follow from the two printed timings, rounding included. Times nothing."""
    prefill_s, decode_s = claim.given("prefill_s"), claim.given("decode_s")
    prompt_s_per_token = prefill_s / claim.given("prompt_tokens").value  # a count of tokens is exact
    claim.measured("prompt_tokens", MS_PER_S * prefill_s / claim.given("prompt_ms_per_token"))
    claim.measured("prompt_ms_per_token", MS_PER_S * prompt_s_per_token)
    claim.measured("decode_steps", REPLY_TOKENS - 1)
    claim.measured("decode_ms", MS_PER_S * decode_s)
    claim.measured("decode_over_prompt", decode_s / prompt_s_per_token)
    claim.measured("prompt_is_cheaper", prompt_s_per_token.high < decode_s.low)
    rounded = claim.given("decode_ms") / claim.given("prompt_ms_per_token")
    claim.measured("decode_over_prompt_from_the_rounded_figures", rounded, unit="1")


@claim("two-phases.prefill-cheaper")
@control("the time of a whole prompt is taken for that of one of its tokens", RATIO, of_one, slow=True)
def test_prefill_cheaper(claim: Claim, timings: Timings) -> None:
    """One decode step after 40 tokens against prefills of 16 to 1,024, per token. Batch 1 only."""
    rounds = timings.prompts
    until_settled(
        claim,
        rounds,
        {"decode_over_prefill": lambda: {p: rounds.ratio(STEP, over=str(p)) * p for p in PROMPTS}},
    )
    claim.measured("prompt_ms_per_token", MS_PER_S / CHAPTER_PROMPT * rounds.seconds(str(CHAPTER_PROMPT)))
    claim.measured("decode_ms_per_token", MS_PER_S * rounds.seconds(STEP))


@claim("two-phases.prefill-table")
@control("the two lengths are compared the other way round", RATIO, turned_round, slow=True)
@control(
    "24 times the prompt is taken to need hardly 24 times as long",
    RATIO,
    taken_as("12288", "512", Estimate(23.5, 23.2, 23.8)),
    slow=True,
)
@control(
    "the time of a pass is not divided by its tokens",
    "step_by_step",
    lambda real: lambda rounds, names, per=False: real(rounds, names),
    slow=True,
)
def test_prefill_table(claim: Claim, timings: Timings) -> None:
    """Prefills of 16 to 1,024 tokens through the whole model; beyond, one layer of it stands for all."""
    from lib.step_actions import pass_cost

    rounds, beyond = timings.prompts, timings.long_prompts
    names, long_names = [str(p) for p in PROMPTS], [str(p) for p in LONG_PROMPTS]
    # from one length to the next the cost per token changes too little to be decided: over two it does
    coarse = [str(p) for p in (PROMPTS[0], PROMPTS[2], PROMPTS[-1])]
    until_settled(claim, rounds, {"total": lambda: step_by_step(rounds, names)})
    beyond.until(lambda: claim.settles("per_token", step_by_step(beyond, long_names, per=True)), BEYOND_BUDGET_S)
    falls = step_by_step(rounds, coarse, per=True) | step_by_step(beyond, long_names, per=True)
    claim.measured("per_token", falls)
    claim.condition(f"up to some {PROMPTS[-1]} tokens; beyond, attention makes every further token dearer")
    claim.measured("tokens_until_arithmetic_dominates", timings.knee, unit="token")
    claim.protocol(layers_beyond_the_table=LONG_LAYERS)
    last = PROMPTS[-1]
    roofline(claim, timings, rounds, longest=(str(last), pass_cost(timings.model, 0, positions=last)))
    prefill_table(claim, rounds, PROMPTS)


@claim("two-phases.decode-flat")
@control("a step attends to the shortest context only", OVER_SHORTEST, never_longer, slow=True)
@control("the table's last step takes a quarter longer", RATIO, longer(1.25, str(LONGEST)), slow=True)
@misprint("longest_context", "1,025", slow=True)
def test_decode_flat(claim: Claim, timings: Timings) -> None:
    """One decode step over filled caches of 16 to 16,384 tokens, relative to the shortest."""
    _steps_by_context(claim, timings, "slowdown", timings.over_shortest)
    end = {"slowdown_at_the_end_of_the_table": lambda: timings.contexts.ratio(str(LONGEST), over=str(SHORTEST))}
    until_settled(claim, timings.contexts, end)
    claim.measured("shortest_context", SHORTEST)
    claim.measured("longest_context", LONGEST)
    claim.measured("context_ratio", LONGEST // SHORTEST)
    claim.condition(f"up to the table's {LONGEST:,} tokens, and not far beyond")
    decode_table(claim, timings)


@claim("two-phases.weights-hide-attention")
@control("the output matrix is not counted", "lib.step_actions._head_weights", reads(0), slow=True)
@control("a step attends to the shortest context only", OVER_SHORTEST, never_longer, slow=True)
def test_weights_hide_attention(claim: Claim, timings: Timings) -> None:
    """What the cache adds to a step, as a share of it; beside it, what its bytes alone would."""
    from lib.step_actions import pass_cost

    base = str(SHORTEST)
    _steps_by_context(
        claim, timings, "attention_share", lambda: {n: share_added(r) for n, r in timings.over_shortest().items()}
    )
    claim.measured("weights", timings.weights_read)
    short = pass_cost(timings.model, SHORTEST).read_bytes
    shares = {n: 1 - short / pass_cost(timings.model, int(n)).read_bytes for n in timings.over_shortest()}
    claim.measured("share_of_bytes", shares, unit="1")
    claim.measured("context_whose_cache_is_as_large_as_the_weights", timings.cache_as_large_as_weights, unit="token")
    claim.condition(f"up to {LONGEST:,} tokens")
    roofline(claim, timings, timings.contexts, step=(base, pass_cost(timings.model, SHORTEST)))


@claim("two-phases.ttft-is-prefill")
@control(
    "the earlier turns are read anew although they are cached",
    RATIO,
    mistaken({"resumed": f"first token {TALK}"}),
    slow=True,
)
@control("the first token comes a quarter later", RATIO, longer(1.25, "first token"), slow=True)
def test_ttft_is_prefill(claim: Claim, timings: Timings) -> None:
    """Time to the first streamed item, text included, against the prefill alone; then with the earlier turns cached."""
    rounds = timings.conversation
    until_settled(
        claim,
        rounds,
        {
            "ttft_over_prefill": lambda: {
                p: rounds.ratio(f"first token {p}", over=f"prefill {p}") for p in (TURN, TALK)
            },
            "growth": lambda: {
                "nothing": rounds.ratio(f"first token {TALK}", over=f"first token {TURN}"),
                "everything before the question": rounds.ratio("resumed", over=f"first token {TURN}"),
            },
        },
    )
    claim.condition(
        "as long as every turn is read again from the start; with the cache kept, only the new tokens count"
    )
    claim.protocol(question_tokens=TURN, conversation_tokens=TALK)


@claim("two-phases.steady-stream")
@control("four steps are held against three tokens", RATIO, longer(4 / 3, "steps"), slow=True)
@control("a step attends to the shortest context only", OVER_SHORTEST, never_longer, slow=True)
def test_steady_stream(claim: Claim, timings: Timings) -> None:
    """Streamed tokens against bare steps; then the last step of a reply against its first, for ever longer replies."""
    rounds = timings.reply
    until_settled(claim, rounds, {"rate_times_step": lambda: rounds.ratio("steps", over="stream")})
    _steps_by_context(
        claim,
        timings,
        "last_over_first",
        lambda: {f"{int(n) - SHORTEST:,}": r for n, r in timings.over_shortest().items()},
    )
    claim.measured("tokens_per_second", rounds.rate("stream", STREAMED), unit="token/s")
    claim.condition(f"for replies of up to {LONGEST - SHORTEST:,} tokens")
    claim.protocol(context=CACHED, streamed=STREAMED)


def _steps_by_context(claim: Claim, timings: Timings, figure: str, value: Callable[[], Mapping[str, Scalar]]) -> None:
    """Time the far contexts as far as they need, the near one until the figure is decided; hand it over."""
    far = [name for name in timings.contexts.actions if int(name) > LONGEST]
    base = str(SHORTEST)
    timings.contexts.until(lambda: all(timings.contexts.ratio(n, over=base).low > 1 for n in far), FAR_BUDGET_S)
    timings.near.until(lambda: claim.settles(figure, value()), NEAR_BUDGET_S)
    claim.measured(figure, value())
    claim.protocol(**{f"{fact}_near": known for fact, known in timings.near.facts().items()})
    claim.protocol(**timings.contexts.facts())
