"""Prefill and decode. The timings come with a later issue; the arithmetic of the printed ones is settled here."""

from __future__ import annotations

from lib.intervals import Estimate, exact, printed
from reports.claim import Claim, claim

REPLY_TOKENS = 48  # of the same run, printed in kv-cache.ninefold; the first of them comes out of the prefill
MS_PER_S = 1000
INPUT = "timed on the chapter's machine; the arithmetic takes it as printed"


@claim("two-phases.phase-arithmetic")
def test_phase_arithmetic(claim: Claim) -> None:
    """Whether the derived figures follow from the two printed timings, rounding included. Times nothing."""
    digits = {figure.name: figure.value or "" for figure in claim.statement.published}
    prefill_s, decode_s = printed(digits["prefill_s"]), printed(digits["decode_s"])
    prompt_s_per_token: Estimate = prefill_s / exact(digits["prompt_tokens"])
    claim.not_measured("prefill_s", INPUT)
    claim.not_measured("decode_s", INPUT)
    claim.measured("prompt_tokens", MS_PER_S * prefill_s / printed(digits["prompt_ms_per_token"]))
    claim.measured("prompt_ms_per_token", MS_PER_S * prompt_s_per_token)
    claim.measured("decode_steps", REPLY_TOKENS - 1)
    claim.measured("decode_ms", MS_PER_S * decode_s)
    claim.measured("decode_over_prompt", decode_s / prompt_s_per_token)
    claim.measured("prompt_is_cheaper", prompt_s_per_token.high < decode_s.low)
    rounded = printed(digits["decode_ms"]) / printed(digits["prompt_ms_per_token"])
    claim.measured("decode_over_prompt_from_the_rounded_figures", rounded, unit="1")
