"""What the claim on FlashAttention measures: errors, what is alive, what a model hands to the kernel, and seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from reports.claim import Claim
from reports.tables import Column

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from lib.flash import Case
    from lib.live_bytes import Peak

HEADS, KV_HEADS = 14, 2
POSITIONS = 4_096  # of the chapter's single head
LAYERS, ROWS, PROMPT = 2, 2, 1_024  # of a model that is asked what it hands over
PADDING, CHUNK = 100, 512
AFTER = 1_100  # positions: more than two of the kernel's blocks of 512


def errors_table(claim: Claim) -> dict[str, float]:
    """Largest error of the fused operation over its bound, by case and format; a table of both ways beside it."""
    import torch

    from lib.flash import compare, share_of_other_bits

    lines, over_bound = [], {}
    for name, case in _cases().items():
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            found, other = compare(case, dtype), share_of_other_bits(case, dtype)
            fused, written = found["fused"], found["explicit"]
            form = str(dtype).removeprefix("torch.")
            over_bound[f"{name}, {form}"] = fused.share_of_bound
            ratio = float(f"{fused.rms / written.rms:.3g}") if written.rms else None
            sizes = (fused.worst, fused.rms, written.rms, fused.share_of_bound, other)
            lines.append([name, form, *(float(f"{x:.3g}") for x in sizes), ratio])
    columns = [
        Column("case", name_id="kasus"),
        Column("format"),
        Column("fused, largest error over largest value", name_id="fused, galat terbesar dibanding nilai terbesar"),
        Column("fused, rms", name_id="fused, rms"),
        Column("written out, rms", name_id="ditulis penuh, rms"),
        Column("fused, largest error over its bound", name_id="fused, galat terbesar dibanding batasnya"),
        Column("outputs that differ in some bit", name_id="output yang berbeda bitnya"),
        Column("fused over written out, rms", name_id="fused dibanding ditulis penuh, rms"),
    ]
    claim.table("Two ways to one function, against float64", columns, lines, "Dua cara menuju satu fungsi")
    return over_bound


def same_function(claim: Claim, over_bound: Mapping[str, float]) -> dict[str, bool]:
    """Whether both ways give the same, up to rounding where numbers are finite, by what is in the input.

    over_bound: of finite numbers, each way's error over its bound.
    """
    from lib.flash import blind_row, explicit, fused, spoiled_rows

    rows = {"fused": fused, "written out": explicit}
    case = _square(AFTER)
    spoiled = {name: spoiled_rows(attention, case, math.nan) for name, attention in rows.items()}
    claim.measured("rows_spoiled_by_a_masked_nan", spoiled, "row")
    blind = {name: float(row.sum()) for name, row in blind_row().items()}
    claim.measured("row_that_sees_nothing", blind)
    return {
        "finite numbers": max(over_bound.values()) <= 1,
        "a query that may see no key": blind["fused"] == blind["explicit"],
        "not a number where only the last query may look": spoiled["fused"] == spoiled["written out"],
    }


def peaks() -> dict[str, tuple[Peak, Case]]:
    """Everything alive in one head of 64 over 4,096 positions in float32, by how it is called."""
    from lib.flash import Case, attention_peak, explicit, fused, fused_masked, math_only

    square, one, chunk = _square(POSITIONS), Case(1, POSITIONS), Case(POSITIONS // 2, POSITIONS)
    calls = {
        "written out": (explicit, square),
        "fused, no mask": (fused, square),
        "fused, one query": (fused, one),
        "fused, a mask of bools": (fused_masked, square),
        "fused, second half of a prompt": (fused, chunk),
        "no fused kernel": (math_only, square),
    }
    return {name: (attention_peak(attention, case), case) for name, (attention, case) in calls.items()}


def handed_to_attention(claim: Claim) -> dict[str, int]:
    """Bytes of the mask that one layer's attention receives from transformers, by how a batch of two is passed."""
    import torch

    from lib.decoding import decode_step, forward, prefill, random_tokens
    from lib.flash import handed_over
    from lib.slim_models import SLIM_VOCABULARY, cache_only

    model = cache_only(_chapter_config(), num_hidden_layers=LAYERS)
    ids = random_tokens(PROMPT, SLIM_VOCABULARY, batch=ROWS)
    ones = torch.ones_like(ids)
    padded = ones.clone()
    padded[0, :PADDING] = 0
    half, step = prefill(model, ids[:, :CHUNK]).cache, prefill(model, ids[:, :-1], attention_mask=padded[:, :-1]).cache
    calls = {
        "no mask given": lambda: forward(model, ids),
        "a mask of ones": lambda: forward(model, ids, attention_mask=ones),
        "one row padded": lambda: forward(model, ids, attention_mask=padded),
        "second half of a prompt": lambda: decode_step(model, ids[:, CHUNK:], half),
        "one token after padding": lambda: decode_step(model, ids[:, -1:], step, attention_mask=padded),
    }
    found = {name: handed_over(call)[-1] for name, call in calls.items()}
    claim.measured("key_value_heads_handed_over", {name: handed.kv_heads for name, handed in found.items()}, "head")
    masks = {name: handed.mask_bytes for name, handed in found.items()}
    claim.measured("mask_bytes_of_one_token", masks.pop("one token after padding"), "byte")
    return masks


def seconds() -> dict[str, float]:
    """The least of three runs over 4,096 positions. Not judged: this machine is not asked to be quiet."""
    import torch

    from lib.flash import draw, explicit, fused, fused_masked
    from lib.timing.clock import WallClock

    q, k, v = draw(_square(POSITIONS), torch.float32)
    ways = {"written out": explicit, "fused, no mask": fused, "fused, a mask of bools": fused_masked}
    return {
        name: min(WallClock().seconds(lambda a=way: a(q, k, v)) for _ in range(3))  # type: ignore[misc]
        for name, way in ways.items()
    }


def in_mb(size: int) -> float:
    """Bytes in the MB of 1,000,000 that the chapter's 67 MB are (memory-budget.units)."""
    return size / 1e6


def _square(positions: int) -> Case:
    from lib.flash import Case

    return Case(positions, positions)


def _cases() -> dict[str, Case]:
    from lib.flash import Case

    return {
        "causal, 14 heads over 2": Case(256, 256, HEADS, KV_HEADS),
        "one query over 4,096": Case(1, POSITIONS, HEADS, KV_HEADS),
        "64 queries over 512": Case(64, 512, HEADS, KV_HEADS),
        "causal, 2,048 positions": _square(2_048),
        "heads of 50": Case(100, 100, 2, 2, 50),
        "one position": _square(1),
    }


def _chapter_config() -> PretrainedConfig:
    from transformers import AutoConfig

    from fixtures.sources import CHAPTER_SHAPE

    return AutoConfig.for_model(**CHAPTER_SHAPE)
