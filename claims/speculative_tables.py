"""What the speculative claims show beside their verdicts, and what they run."""

from __future__ import annotations

from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, Any

from fixtures.quality import CHAPTER_ROWS
from fixtures.quality_workload import OWN_TOKENS
from fixtures.speculation import CHAPTER_DRAFT, DRAFTS, reply_tokens
from reports.claim import Claim
from reports.plots import Axis, Curve
from reports.tables import Column, four_digits

if TYPE_CHECKING:
    from fixtures.speculation import Speculations
    from lib.timing.rounds import Rounds

JUDGED, DRAFTED = "accepted of those judged, greedy", "accepted of all drafted, greedy"
SAMPLED = "chance of keeping a guess when sampling at temperature 1"
ACCEPTANCES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
LENGTHS = (1, 2, 4, 8, 16)
COSTS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
SHOWN_COSTS = (0.1, 0.2)
SHOWN_ACCEPTANCES = (0.3, 0.6, 0.9)
POSITIONS = tuple(range(1, 9))
VERIFIED, PAID_COSTS = (2, 4, 8), (0.0, 0.1, 0.2)  # drafted tokens whose verification is timed, and costs of one


def speedup_table(claim: Claim) -> None:
    """The chapter's table: net speed-up by acceptance, draft length and cost, and the best length."""
    from lib.speculative.formulas import expected_tokens, net_speedup, optimal_draft

    rows = [
        [a, g, four_digits(expected_tokens(a, g)), *(four_digits(net_speedup(a, g, c)) for c in COSTS)]
        for a in ACCEPTANCES
        for g in LENGTHS
    ]
    claim.table(
        "Net speed-up by acceptance, draft length and cost of a drafted token, if verification costs one pass",
        [
            Column("acceptance", name_id="penerimaan"),
            Column("draft", "token"),
            Column("tokens per verification", name_id="token per verifikasi"),
            *(Column(f"speed-up at cost {c}", name_id=f"percepatan pada biaya {c}") for c in COSTS),
        ],
        rows,
        title_id="Percepatan bersih menurut penerimaan, panjang, dan biaya draft, bila verifikasi semahal satu pass",
    )
    best = [[a, *(_longest(optimal_draft(Fraction(str(a)), Fraction(str(c)))) for c in COSTS)] for a in ACCEPTANCES]
    claim.table(
        "The draft length of the highest net speed-up; 0 is plain decoding",
        [
            Column("acceptance", name_id="penerimaan"),
            *(Column(f"at cost {c}", "token", f"pada biaya {c}") for c in COSTS),
        ],
        best,
        title_id="Panjang draft dengan percepatan bersih tertinggi; 0 berarti decoding biasa",
    )


def speedup_plot(claim: Claim) -> None:
    """Net speed-up over draft length."""
    from lib.speculative.formulas import net_speedup

    curves = [
        Curve(
            f"acceptance {a}, cost {c}",
            {g: float(net_speedup(a, g, c)) for g in range(17)},
            f"penerimaan {a}, biaya {c}",
            c == SHOWN_COSTS[1],
        )
        for c in SHOWN_COSTS
        for a in SHOWN_ACCEPTANCES
    ]
    claim.plot(
        "Net speed-up over draft length, by the formula",
        x=Axis("draft", "token"),
        y=Axis("net speed-up", name_id="percepatan bersih"),
        curves=curves,
        title_id="Percepatan bersih terhadap panjang draft, menurut rumus",
    )


def tail_plot(claim: Claim) -> None:
    """How likely each drafted token is to be looked at."""
    from lib.speculative.formulas import reached

    claim.plot(
        "The chance that a drafted token is looked at, by its place in the guess",
        x=Axis("place in the guess", name_id="posisi dalam tebakan"),
        y=Axis("chance", name_id="peluang", scale="log"),
        curves=[
            Curve(f"acceptance {a}", {n: float(reached(a, n)) for n in POSITIONS}, f"penerimaan {a}")
            for a in (*SHOWN_ACCEPTANCES, 0.95)
        ],
        title_id="Peluang sebuah token draft diperiksa, menurut posisinya dalam tebakan",
    )


def paid_table(claim: Claim, verifications: Rounds) -> None:
    """Net speed-ups when a verification costs what this session has measured, if it has: the cells of the chapter."""
    found = {draft: verifications.ratio(str(draft + 1), over="1") for draft in VERIFIED if len(verifications)}
    costs = {draft: float(ratio.value) for draft, ratio in found.items() if isfinite(ratio.high)}
    if not costs:
        claim.note("After speculative.verify-is-cheap, this claim shows speed-ups with the verification's real cost.")
        return
    how, how_id = ("as measured", "one pass"), ("terukur", "satu pass")
    claim.table(
        "Net speed-up with the verification as measured on this machine, beside the formula's single pass",
        [
            Column("acceptance", name_id="penerimaan"),
            Column("draft", "token"),
            Column("verification", "pass", "verifikasi"),
            *(
                Column(f"cost {c}, verification {way}", name_id=f"biaya {c}, verifikasi {way_id}")
                for way, way_id in zip(how, how_id, strict=True)
                for c in PAID_COSTS
            ),
        ],
        [_paid_row(a, draft, cost) for draft, cost in costs.items() for a in SHOWN_ACCEPTANCES],
        title_id="Percepatan bersih dengan verifikasi seperti terukur di mesin ini, di samping satu pass menurut rumus",
    )


def _paid_row(acceptance: float, draft: int, verification: float) -> list[Any]:
    from lib.speculative.formulas import net_speedup

    speedups = [four_digits(net_speedup(acceptance, draft, c, v)) for v in (verification, 1.0) for c in PAID_COSTS]
    return [acceptance, draft, four_digits(verification), *speedups]


def runs_beside_formula(claim: Claim, speculations: Speculations) -> None:
    """Tokens per pass in real runs over the formula's, by where it takes its acceptance from; and the plot of both."""
    found = {draft: speculations.over_formula(draft) for draft in CHAPTER_ROWS}
    claim.measured("runs_over_formula_of_acceptance", {draft: of["acceptance"] for draft, of in found.items()})
    claim.measured("runs_over_formula_of_agreement", {draft: of["agreement"] for draft, of in found.items()}, "1")
    formula_plot(claim, speculations)


def formula_plot(claim: Claim, speculations: Speculations) -> None:
    """Tokens per pass by the formula, and those of the table's replies at the acceptance that each draft had there."""
    from lib.speculative.clustering import tokens_per_pass, whole_guesses
    from lib.speculative.decoding import counts
    from lib.speculative.formulas import expected_tokens

    points = []
    for draft in CHAPTER_ROWS:
        rounds = speculations.replayed(draft, CHAPTER_DRAFT)
        whole = counts([each for reply in whole_guesses(rounds, CHAPTER_DRAFT) for each in reply])
        points.append((whole.acceptance, tokens_per_pass(rounds, CHAPTER_DRAFT), draft))
    points.sort()
    claim.plot(
        "Tokens per verification of four drafted ones",
        x=Axis("accepted of those judged", name_id="diterima dari yang dinilai"),
        y=Axis("tokens per pass", "token", "token per pass"),
        curves=[
            Curve("formula", {a / 50: float(expected_tokens(a / 50, CHAPTER_DRAFT)) for a in range(51)}, "rumus", True),
            Curve("measured", [(a, t) for a, t, _ in points], "terukur", labels=[draft for *_, draft in points]),
        ],
        title_id="Token per verifikasi atas empat token draft",
    )


def acceptance_table(claim: Claim, speculations: Speculations) -> None:
    """What each draft's run came to, beside the agreement of the same positions."""
    claim.table(
        "Acceptance in speculative runs beside agreement, on the same 144 tokens",
        [
            Column("draft"),
            Column("drafted per round", "token", "draft per ronde"),
            Column("agreement, share of 144", name_id="kesesuaian, bagian dari 144"),
            Column(JUDGED, name_id="diterima dari yang dinilai, greedy"),
            Column(DRAFTED, name_id="diterima dari semua draft, greedy"),
            Column(SAMPLED, name_id="peluang tebakan diterima saat sampling, temperature 1"),
            Column("tokens per pass of the target", name_id="token per pass target"),
        ],
        [_acceptance_row(speculations, draft) for draft in DRAFTS],
        title_id="Penerimaan dalam speculative run di samping kesesuaian, pada 144 token yang sama",
    )


def rates(speculations: Speculations, draft: str) -> dict[str, float]:
    """Accepted over judged and over all drafted, and the chance under sampling, along the quality table's replies.

    A run that was cut short goes on as the agreements say it would.
    """
    from lib.speculative.decoding import counts

    run = speculations.run(draft)
    short = run.agrees is not None and reply_tokens(draft) < OWN_TOKENS
    rounds = speculations.replayed(draft, run.draft_tokens) if short else run.own_rounds
    found = counts([each for reply in rounds for each in reply])
    sampled = {} if run.overlaps is None else {SAMPLED: float(run.overlaps.mean())}
    return {JUDGED: found.acceptance, DRAFTED: sum(found.accepted) / sum(found.proposed)} | sampled


def _acceptance_row(speculations: Speculations, draft: str) -> list[Any]:
    run, found = speculations.run(draft), rates(speculations, draft)
    tokens = sum(len(reply.tokens) for reply in run.own) / sum(len(reply.rounds) for reply in run.own)
    agreement = None if run.agrees is None else four_digits(run.agrees.float().mean())
    shown = [four_digits(found[name]) if name in found else None for name in (JUDGED, DRAFTED, SAMPLED)]
    return [draft, run.draft_tokens, agreement, *shown, four_digits(tokens)]


def _longest(draft: int, longest: int = 64) -> int | str:
    return "ever longer" if draft == longest else draft
