"""Speculative decoding. So far what a verification costs; drafts and acceptance come with a later issue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from claims.timed import roofline, until_settled
from fixtures.timing import CACHED, POSITIONS
from reports.claim import Claim, claim
from reports.plots import Axis, Curve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fixtures.timing import Timings
    from lib.intervals import Estimate

SEVERAL = 4  # tokens: one or two are a draft too, but what the statement speaks of is several


@claim("speculative.verify-is-cheap")
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
    least = {draft: limits.seconds(c.read_bytes, c.flops) for draft, c in passes.items()}
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
