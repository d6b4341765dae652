"""Output errors by technique: against errors worked out in fp64, planted hard cases, and counted bits."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from lib.quantization.absmax import NotFiniteError
from lib.quantization.calibration import InputStatistics, Keep, add_rows, collect, empty_statistics, record_bytes
from lib.quantization.recovery import (
    PRODUCT_TECHNIQUES,
    WEIGHT_TECHNIQUES,
    Corpora,
    Recovery,
    model_recovery,
    product_recovery,
    rebuilt_weights,
    recovered,
    smoothing,
    token_error,
    weight_recovery,
)
from lib.quantization.schemes import SCHEMES
from lib.quantization.smoothquant import migration_factors
from lib.tests.tiny_qwen2 import tiny_qwen2
from lib.weight_stats import projection_weights

SCHEME = SCHEMES["int4-g32"]
# Two fp32 products of 64 columns, against fp64: far below the errors of rounding, which are above 1e-3.
FP32_TOLERANCE = 1e-4


def case(loud: float = 20.0) -> tuple[Tensor, InputStatistics, Tensor]:
    """Weights (48, 64), what calibration saw, held-out inputs (100, 64): correlated channels, two of them loud."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(400, 8, generator=generator) @ torch.randn(8, 64, generator=generator) / 3
    inputs += 0.3 * torch.randn(400, 64, generator=generator)
    inputs[:, [3, 40]] *= loud
    seen = empty_statistics(64, gram=True)
    add_rows(seen, inputs[:300], torch.arange(300) % 2 == 0)
    return torch.randn(48, 64, generator=generator) * 0.05, seen, inputs[300:]


def factors_of(weights: Tensor, seen: InputStatistics) -> Tensor:
    return smoothing({"layer": weights}, {"layer": seen})["layer"]


def test_error_of_plain_rounding_against_double_precision() -> None:
    weights, seen, held_out = case()
    exact = held_out.double() @ weights.double().T
    lost = held_out.double() @ (SCHEME.reconstruct(weights).double() - weights.double()).T
    table = weight_recovery(weights, seen, held_out, SCHEME)
    expected = float(lost.norm() / exact.norm())
    assert table["rtn"].relative_error == pytest.approx(expected, rel=FP32_TOLERANCE)
    of_the_weights = float((SCHEME.reconstruct(weights) - weights).norm() / weights.norm())
    assert of_the_weights != pytest.approx(expected, rel=0.1)  # the wrong variant: the matrix instead of its outputs


def test_every_weight_technique_gains_where_channels_are_loud_and_correlated() -> None:
    weights, seen, held_out = case()
    table = weight_recovery(weights, seen, held_out, SCHEME)
    assert set(table) == set(WEIGHT_TECHNIQUES)
    assert all(recovered(table, "rtn", name) > 0.1 for name in ("awq", "gptq", "gptq-sorted"))
    assert recovered(table, "rtn", "rtn") == 0
    assert len({entry.relative_error for entry in table.values()}) == len(table)  # no technique under two names


def test_every_product_technique_gains_where_channels_are_loud() -> None:
    weights, seen, held_out = case()
    table = product_recovery(weights, factors_of(weights, seen), held_out)
    assert set(table) == set(PRODUCT_TECHNIQUES)
    assert recovered(table, "int8-tensor", "smooth-tensor") > 0.1
    assert recovered(table, "int8-token", "smooth-token") > 0.1
    assert recovered(table, "int8-token", "mixed") > 0.1
    assert recovered(table, "int8-tensor", "int8-token") > 0
    assert recovered(table, "smooth-tensor", "smooth-token") > 0
    assert len({entry.relative_error for entry in table.values()}) == len(table)


def test_layers_that_share_inputs_share_their_factors() -> None:
    """As they must, reading one smoothed tensor; the wrong variant: each by its own weights."""
    weights, seen, _ = case()
    pair = {"gate": weights, "up": weights.flip(0, 1) * 3, "alone": weights}
    other = replace(seen)  # equal, and not the same record
    factors = smoothing(pair, {"gate": seen, "up": seen, "alone": other})
    both = torch.cat([pair["gate"], pair["up"]])
    assert torch.equal(factors["gate"], factors["up"])
    assert torch.equal(factors["gate"], migration_factors(seen.largest, both.abs().amax(0)))
    assert not torch.equal(factors["gate"], factors["alone"])


def test_quiet_channels_leave_the_decomposition_nothing_to_do() -> None:
    weights, seen, held_out = case(loud=1.0)
    table = product_recovery(weights, factors_of(weights, seen), held_out / 4)
    assert recovered(table, "int8-token", "mixed") == 0
    assert table["mixed"].bits_per_weight == table["int8-token"].bits_per_weight == 8 + 16 / 64


def test_token_error_against_a_huge_token() -> None:
    """One token decides the error over all, the wrong figure for the others; the median does not know it."""
    exact = torch.tensor([[1000.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 0.0], [4.0, 0.0]])
    outputs = torch.tensor([[1000.0, 0.0], [1.5, 0.0], [0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    assert token_error(exact, outputs) == 0.5  # of 0, 0.5, 0.5, 0, 0.75
    assert float((exact - outputs).norm() / exact.norm()) < 0.004


def test_bits_of_every_technique() -> None:
    weights, seen, held_out = case()
    table = weight_recovery(weights, seen, held_out, SCHEME)
    assert {entry.input_bits for entry in table.values()} == {32}
    bits = {name: entry.bits_per_weight for name, entry in table.items()}
    assert bits == {"rtn": 4.5, "gptq": 4.5, "gptq-sorted": 4.5, "awq": 4.5 + 16 / 48}
    mixed = product_recovery(weights, factors_of(weights, seen), held_out)["mixed"]
    count = int((held_out.abs() >= 6).any(0).sum())
    assert mixed.bits_per_weight == pytest.approx(8 + 16 / 64 + count * (8 * 48 + 16) / (48 * 64))
    assert mixed.input_bits == 8


def test_recovered_share_against_its_definition() -> None:
    table = {"rtn": Recovery(0.1, 0.1, 4, 32), "half": Recovery(0.05, 0.05, 4, 32), "worse": Recovery(0.2, 0.2, 4, 32)}
    assert [recovered(table, "rtn", name) for name in ("half", "worse")] == [0.5, -1.0]
    with pytest.raises(ValueError, match="nothing to recover"):
        recovered({"rtn": Recovery(0.0, 0.0, 4, 32)}, "rtn", "rtn")


def test_bad_input_is_refused() -> None:
    weights, seen, held_out = case()
    held_out[3, 3] = float("nan")
    with pytest.raises(NotFiniteError, match="held-out"):
        weight_recovery(weights, seen, held_out, SCHEME)
    with pytest.raises(NotFiniteError, match="held-out"):
        product_recovery(weights, factors_of(weights, seen), held_out)
    seen.gram = None
    with pytest.raises(ValueError, match="gram matrix"):
        weight_recovery(weights, seen, torch.ones(2, 64), SCHEME, ["gptq"])


def tiny_model() -> nn.Module:
    return tiny_qwen2()


def test_rebuilt_matrices_in_portions_against_rebuilding_each() -> None:
    model, generator = tiny_model(), torch.Generator().manual_seed(1)
    ids = [torch.randint(0, 97, (2, 40), generator=generator)]
    rebuilt = rebuilt_weights(model, ids, SCHEME, "gptq", Keep(limit_bytes=2 * record_bytes(64)))
    for name, record in collect(model, ids).items():
        assert torch.equal(rebuilt[name], WEIGHT_TECHNIQUES["gptq"](projection_weights(model)[name], record, SCHEME))
        assert not torch.equal(rebuilt[name], SCHEME.reconstruct(projection_weights(model)[name]))


def test_whole_model_in_portions_is_the_same_as_at_once() -> None:
    model = tiny_model()
    generator = torch.Generator().manual_seed(1)
    corpora = Corpora(*([torch.randint(0, 97, (2, 40), generator=generator)] for _ in range(2)))
    whole = model_recovery(model, corpora, SCHEME)
    assert set(whole) == set(projection_weights(model))
    assert all(set(table) == {*WEIGHT_TECHNIQUES, *PRODUCT_TECHNIQUES} for table in whole.values())
    assert model_recovery(model, corpora, SCHEME, keep=Keep(limit_bytes=record_bytes(64))) == whole
    some = ["model.layers.1.mlp.down_proj"]
    seen, fresh = (collect(model, batches, some)[some[0]] for batches in (corpora.calibration, corpora.held_out))
    weights = projection_weights(model)[some[0]]
    both = product_recovery(weights, factors_of(weights, seen), fresh.rows)
    assert whole[some[0]] == weight_recovery(weights, seen, fresh.rows, SCHEME) | both
    on_what_it_saw = weight_recovery(weights, seen, seen.rows, SCHEME)
    assert whole[some[0]]["gptq"] != on_what_it_saw["gptq"]  # the wrong variant: judged on the calibration text
    assert model_recovery(model, corpora, SCHEME, some) == {some[0]: whole[some[0]]}
