"""Rounded activations and the techniques against them: what is handed over, and the tables and curves beside it."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean, median
from typing import TYPE_CHECKING

from fixtures.techniques import (
    FIRST_OUT,
    FROM_STREAM,
    INPUTS,
    NOT_FROM_STREAM,
    READERS,
    REFERENCE,
    STREAM,
    TENSOR,
    TOKEN,
    TOP_OUT,
    WEIGHTS_ALONE,
    Runs,
    Texts,
)
from lib.intervals import Estimate
from reports.claim import Claim
from reports.plots import Axis, Curve
from reports.tables import Cell, Column

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from lib.quantization.outlier_dependence import Dependence, Table

WAYS = [f"{what}, {scale}" for what in (INPUTS, STREAM) for scale in (TENSOR, TOKEN)]
LEFT_OUT = (f"{STREAM}, {TOP_OUT}", f"{STREAM}, {FIRST_OUT}", f"{INPUTS}, {FIRST_OUT}")
# What each technique is an improvement on, what it is called, and the layers that its paper uses it on.
TECHNIQUES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "finer granularity": ("int8-tensor", "int8-token", ()),
    "mixed decomposition": ("int8-token", "mixed", ()),
    "SmoothQuant": ("int8-tensor", "smooth-tensor", READERS),
    "AWQ": ("rtn", "awq", ()),
    "GPTQ": ("rtn", "gptq", ()),
}
KINDS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
ONE_OF_EACH = {"q_proj": "query, key, value", "o_proj": "output", "gate_proj": "gate, up", "down_proj": "down"}
Lost = Mapping[str, Mapping[int, tuple[float, float]]]
"""Kind → block → what the median token loses under one scale per tensor, and per token."""


def measure_rounding(claim: Claim, runs: Runs) -> None:
    """Loss and choices under each way of rounding, and which inputs of an engine change the choices."""
    claim.measured("loss_added", {way: runs.added(way) for way in WAYS})
    claim.measured("choices_kept", {way: runs.kept(way) for way in WAYS})
    claim.measured("changed_by_the_stream_over_by_the_rest", runs.changed_over(FROM_STREAM, NOT_FROM_STREAM))
    claim.measured("loss_added_with_parts_left_out", {way: runs.added(way) for way in LEFT_OUT}, "nat per token")
    claim.measured("loss_added_by_8_bit_weights_alone", runs.added(WEIGHTS_ALONE), "nat per token")
    claim.condition("only for one scale per tensor, on the residual stream, which no product of the model reads")


def show_rounding(claim: Claim, runs: Runs, lost: Lost) -> None:
    """The runs as a table, and where along the depth the inputs lose most."""
    runs_table(claim, runs, "INT8 weights, and activations rounded as well", "Bobot INT8, activation ikut dibulatkan")
    claim.plot(
        "What rounding leaves wrong of the median token's inputs",
        x=Axis("block", name_id="blok"),
        y=Axis("lost, relative to the token's norm", name_id="bagian yang hilang, relatif terhadap norma token"),
        curves=[
            *(Curve(f"{ONE_OF_EACH[k]}, {TENSOR}", {b: both[0] for b, both in lost[k].items()}) for k in lost),
            Curve(f"down, {TOKEN}", {b: both[1] for b, both in lost["down_proj"].items()}, dashed=True),
        ],
        title_id="Kesalahan input token median akibat pembulatan",
    )


def runs_table(claim: Claim, runs: Runs, title: str, title_id: str) -> None:
    """Every run of the whole model: loss above the untreated one, and the share of its choices that are kept."""
    columns = [
        Column("treatment", name_id="perlakuan"),
        Column("loss added", "nat per token", "tambahan loss"),
        Column("same next token", name_id="token berikutnya sama"),
    ]
    rows: list[list[Cell]] = [[name, runs.added(name), runs.kept(name)] for name in runs.scores if name != REFERENCE]
    claim.table(title, columns, rows, title_id=title_id)


def lost_by_layer(model: PreTrainedModel, texts: Texts) -> dict[str, dict[int, tuple[float, float]]]:
    """One pass over the judged windows, measuring what 8 bits would leave wrong of each kind of input."""
    import torch

    from lib.activations import linear_inputs
    from lib.quantization.rounded_activations import lost_per_token, per_tensor, per_token

    measures = [lost_per_token(edit) for edit in (per_tensor, per_token)]
    seen = linear_inputs(model, texts.judged[:, :-1], lambda x: torch.stack([measure(x) for measure in measures]))
    found: dict[str, dict[int, tuple[float, float]]] = {kind: {} for kind in ONE_OF_EACH}
    for name, both in seen.items():
        _, block, *_, kind = name.split(".")
        if kind in found:
            found[kind][int(block)] = (float(both[0]), float(both[1]))
    return found


def measure_techniques(claim: Claim, needs: Dependence) -> None:
    """What each gives back on the matrices of a few blocks, whether it rounds activations, what it owes to outliers."""
    recovered = {name: needs.drop(*ways) for name, ways in TECHNIQUES.items()}
    claim.measured("recovered", recovered)
    some = next(iter(needs.present.values()))
    claim.measured("acts_on_activations", {name: some[way].input_bits < 32 for name, (_, way, _) in TECHNIQUES.items()})
    left = {name: gain_left(needs, *ways) for name, ways in TECHNIQUES.items()}
    if known := {name: share for name, share in left.items() if share is not None}:
        claim.measured("gain_left_without_outliers", known)
    else:
        claim.not_measured("gain_left_without_outliers", "no technique gains anything on this model that could be lost")
    for name in (name for name, share in left.items() if share is None):
        claim.note(f"{name} gains nothing here, so that no outliers can be taken from its gain")
    claim.condition(
        "for what rounds activations; AWQ and GPTQ round weights alone, and GPTQ gains as much without them"
    )


def gain_left(needs: Dependence, plain: str, technique: str, kinds: tuple[str, ...]) -> Estimate | None:
    """The share of a technique's gain that is left without outliers; None where it gains nothing with them."""
    try:
        return needs.gain_left(plain, technique, kinds)
    except ValueError:
        return None


def show_techniques(claim: Claim, needs: Dependence, runs: Runs) -> None:
    """Each technique on each kind of layer, with and without outliers; and whole models."""
    measured_kinds = [kind for kind in KINDS if needs.layers("rtn", (kind,))]
    columns = [
        Column("technique, over its plain way", name_id="teknik, dibanding cara biasa"),
        Column("outliers", name_id="outlier"),
        Column("bits per weight", "bit", "bit per bobot"),
        *map(Column, measured_kinds),
    ]
    pairs = [("int8-token", "smooth-token"), *((plain, technique) for plain, technique, _ in TECHNIQUES.values())]
    rows = [
        [f"{technique} / {plain}", outliers, bits(needs, technique), *(ratio(needs, table, plain, technique, k)
                                                                      for k in measured_kinds)]
        for plain, technique in pairs
        for outliers, table in (("as they are", needs.present), ("left out", needs.absent))
    ]  # fmt: skip
    title = "Error of the median token, over that of the plain way, by kind of layer"
    claim.table(title, columns, rows, title_id="Kesalahan token median dibanding cara biasa, per jenis layer")
    runs_table(claim, runs, "Whole model under each treatment", "Model utuh dengan tiap perlakuan")


def ratio(needs: Dependence, table: Table, plain: str, technique: str, kind: str) -> float | None:
    """Mean over the blocks of the technique's error over the plain way's; None where a kind lacks the technique."""
    layers = needs.layers(technique, (kind,))
    errors = [table[n][technique].token_error / table[n][plain].token_error for n in layers]
    return round(mean(errors), 3) if errors else None


def bits(needs: Dependence, technique: str) -> float:
    """Stored bits per weight, median over the layers."""
    return round(median(needs.present[n][technique].bits_per_weight for n in needs.layers(technique)), 3)
