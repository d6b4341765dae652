"""Prefill and decode. The timings come with a later issue; the arithmetic of the printed ones is settled here."""

from __future__ import annotations

from reports.claim import Claim, claim

REPLY_TOKENS = 48  # of the same run, printed in kv-cache.ninefold; the first of them comes out of the prefill
MS_PER_S = 1000


@claim("two-phases.phase-arithmetic")
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
