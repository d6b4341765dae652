"""What the distillation claims show beside their verdicts, and the readings that several of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lib.intervals import Estimate
from reports.claim import Claim
from reports.plots import Axis, Curve
from reports.tables import Cell, Column, four_digits

if TYPE_CHECKING:
    from torch import Tensor

    from fixtures.lessons import School
    from fixtures.next_tokens import NextTokens

NEAR_MISSES = (1, 2, 3, 4)  # places of the runners-up among the first five
EDGES = (1, 5, 100, 1000)  # ranks at which the mass is cut into bands
SHOWN = (0.5, 1.0, 1.25, 1.5, 2.0, 4.0)
SCALED = (1.0, 2.0, 4.0)
FINE = tuple(0.3 + 0.1 * i for i in range(38))
LANGUAGES, SYMBOLS, CHAIN_STEPS, CHAIN_TOKENS = 8, 24, 300, (1_000, 64_000)
# Words among the sibling's first five that are no nouns, read by hand; a sentence could not end with them.
OTHER_GRAMMAR = frozenset("large young small sharp straight final empty big long other new first".split())


@dataclass(frozen=True)
class FirstWords:
    """The likeliest tokens after a sentence: spelled, with their probabilities, and by word class."""

    words: tuple[str, ...]
    shares: tuple[float, ...]

    @property
    def others(self) -> list[str]:
        """Words of another grammatical class."""
        return [word for word in self.words if word in OTHER_GRAMMAR]

    @property
    def nouns(self) -> list[str]:
        """Words that are none of those; a blank or a mark is no word."""
        return [word for word in self.words if word.isalpha() and word not in OTHER_GRAMMAR]


def first_words(rows: NextTokens, sentence: str, count: int) -> FirstWords:
    """The `count` likeliest tokens after a sentence."""
    top = rows.teacher[sentence].softmax(-1).topk(count)
    return FirstWords(tuple(rows.word(i) for i in top.indices.tolist()), tuple(top.values.tolist()))


def words_table(claim: Claim, rows: NextTokens, found: Mapping[str, FirstWords]) -> None:
    """Sentence by sentence: the first five, and how many tokens the rest is spread over."""
    from lib.distillation.temperature import entropy, ids_for_mass

    lines: list[list[Cell]] = []
    for sentence, first in found.items():
        p = rows.teacher[sentence].softmax(-1)
        pairs = zip(first.words, first.shares, strict=True)
        spelled = ", ".join(f"{word or 'a blank'} {share:.4f}" for word, share in pairs)
        held = [ids_for_mass(p, share) for share in (0.5, 0.9, 0.99)]
        lines.append([sentence, spelled, four_digits(sum(first.shares)), *held, four_digits(float(entropy(p)))])
    columns = [
        Column("beginning", name_id="awal kalimat"),
        Column("first five", name_id="lima teratas"),
        Column("their share", name_id="bagiannya"),
        *(Column(f"tokens for {s} %", name_id=f"token untuk {s} %") for s in (50, 90, 99)),
        Column("entropy", "nat", "entropi"),
    ]
    claim.table("What follows, and how long the tail is", columns, lines, "Lanjutan, dan panjang ekornya")


def mass_table(claim: Claim, rows: NextTokens) -> None:
    """Where the mass goes as the temperature rises: shares of bands of ranks, mean over the sentences."""
    from lib.distillation.temperature import share_peak_temperature

    shares = _band_shares(rows, SHOWN)
    lines: list[list[Cell]] = [[t, *(four_digits(x) for x in by_band.values())] for t, by_band in shares.items()]
    columns = [Column("T"), *(Column(f"ranks {band}", name_id=f"peringkat {band}") for band in shares[1.0])]
    claim.table("Share of the mass by rank, mean over sentences", columns, lines, "Bagian massa menurut peringkat")
    peaks = [
        share_peak_temperature(row, int(token)) for row in rows.teacher.values() for token in row.topk(5).indices[1:]
    ]
    claim.measured("temperature_at_which_a_near_miss_is_likeliest", [min(peaks), max(peaks)])


def mass_plot(claim: Claim, rows: NextTokens) -> None:
    """The same as curves."""
    shares = _band_shares(rows, FINE)
    bands = list(next(iter(shares.values())))
    curves = [
        Curve(f"ranks {band}", {t: by_band[band] for t, by_band in shares.items()}, f"peringkat {band}")
        for band in bands
    ]
    claim.plot(
        "Where the mass goes",
        x=Axis("temperature"),
        y=Axis("share of the mass", name_id="bagian massa"),
        curves=curves,
        title_id="Ke mana massanya pergi",
    )


def bands_of(logits: Tensor) -> dict[str, Tensor]:
    """Ids of logits (V,) by rank, cut at those of EDGES that a small vocabulary has."""
    from lib.distillation.temperature import rank_bands

    return rank_bands(logits, [edge for edge in EDGES if edge < len(logits)])


def share_table(claim: Claim, rows: NextTokens) -> None:
    """The gradient's absolute sum by band, for a student that knows nothing, and what T² leaves of its length."""
    from lib.distillation.gradients import gradient_share, soft_gradient

    lines = []
    for t in SCALED:
        by_row, lengths = [], []
        for row in rows.teacher.values():
            gradient = soft_gradient(row * 0, row, t)
            by_row.append([gradient_share(gradient, ids) for ids in bands_of(row).values()])
            lengths.append(float(gradient.norm() * t**2 / soft_gradient(row * 0, row, 1.0).norm()))
        lines.append([t, *(four_digits(x) for x in _means(by_row)), four_digits(_means([[x] for x in lengths])[0])])
    bands = bands_of(next(iter(rows.teacher.values())))
    columns = [Column("T"), *(Column(f"ranks {band}", name_id=f"peringkat {band}") for band in bands)]
    columns.append(Column("T² times its length, over that at 1", name_id="T² kali panjangnya, dibanding pada 1"))
    claim.table("Share of a blank student's gradient by rank", columns, lines, "Bagian gradient student kosong")


def students_table(claim: Claim, school: School, by_size: Mapping[int, Mapping[Any, Estimate]]) -> None:
    """What soft labels leave less of than each kind of hard label, by tokens taught; and teachers by their own loss."""
    from lib.distillation.students import Labels

    kinds = (Labels.TRUE, Labels.ARGMAX, Labels.SAMPLED)
    names = ("the text's next token", "the teacher's first token", "a draw from the teacher")
    names_id = ("token berikutnya dari teks", "token teratas teacher", "satu undian dari teacher")
    columns = [Column("tokens taught", "token", "token yang diajarkan")]
    columns += [
        Column(f"gain over {n}", "nat per token", f"keunggulan atas {i}") for n, i in zip(names, names_id, strict=True)
    ]
    lines: list[list[Cell]] = [[tokens, *(gains[kind] for kind in kinds)] for tokens, gains in by_size.items()]
    claim.table("What soft labels teach more", columns, lines, "Kelebihan soft label")
    loss = {f"{b} blocks": school.judged.teacher_loss(b) for b in school.blocks}
    claim.measured("loss_of_the_teacher", loss, "nat per token")
    kept = {kind.value: float(school.losses(kind).mean()) for kind in Labels}
    claim.measured("held_out_loss_by_labels", kept, "nat per token")
    claim.protocol(**school.protocol())


def chain_gaps() -> dict[str, Estimate]:
    """Gains of soft labels over a draw and over the first symbol, from a teacher who knows the truth; by tokens."""
    from lib.distillation.chains import held_out, lessons_of, random_chains
    from lib.distillation.students import Labels, Recipe, train
    from lib.equivalence import equivalence_interval

    chains, kinds = random_chains(range(LANGUAGES), SYMBOLS), (Labels.SOFT, Labels.SAMPLED, Labels.ARGMAX)
    gaps = {}
    for tokens in CHAIN_TOKENS:
        lessons = lessons_of(chains, chains.log_probs, tokens)
        best = {kind: train(lessons, kind, Recipe(CHAIN_STEPS), held_out(chains)).best[:, 0] for kind in kinds}
        for kind, name in ((Labels.SAMPLED, "a draw"), (Labels.ARGMAX, "the first symbol")):
            found = equivalence_interval((best[kind] - best[Labels.SOFT]).tolist(), 0.95)
            gaps[f"over {name}, {tokens:,} tokens"] = found
    return gaps


def _band_shares(rows: NextTokens, temperatures: Sequence[float]) -> dict[float, dict[str, float]]:
    from lib.distillation.temperature import mass_of, soften

    bands = {sentence: bands_of(row) for sentence, row in rows.teacher.items()}
    found = {}
    for t in temperatures:
        by_row = []
        for sentence, row in rows.teacher.items():
            p = soften(row, t)
            by_row.append([mass_of(p, ids) for ids in bands[sentence].values()])
        found[t] = dict(zip(next(iter(bands.values())), _means(by_row), strict=True))
    return found


def _means(rows: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) / len(column) for column in zip(*rows, strict=True)]
