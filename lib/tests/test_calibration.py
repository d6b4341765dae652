"""What calibration records, against numpy over the same inputs; silent, constant and broken channels; memory limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM

from lib.activations import linear_inputs
from lib.quantization.absmax import NotFiniteError
from lib.quantization.calibration import (
    ALL,
    InputStatistics,
    Keep,
    TooMuchToKeep,
    add_rows,
    collect,
    collect_parts,
    empty_statistics,
    portions,
    record_bytes,
    together,
    without_channels,
)
from lib.quantization.recovery import PRODUCT_TECHNIQUES, WEIGHT_TECHNIQUES, smoothing
from lib.quantization.schemes import SCHEMES
from lib.weight_stats import projection_weights

EPS = float(torch.finfo(torch.float32).eps)
LAYER = "model.layers.1.mlp.down_proj"


class Toy(nn.Module):
    """An embedding and two linear layers that read it, the first one `runs` times."""

    def __init__(self, runs: int = 1) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.table, self.one, self.two = nn.Embedding(20, 32), nn.Linear(32, 6), nn.Linear(32, 4)
        self.runs = runs
        self.table.weight.data[:, 2], self.table.weight.data[:, 5] = 3.0, 0.0

    def forward(self, input_ids: Tensor, use_cache: bool) -> Tensor:
        """Anything that reads all of it."""
        inputs = self.table(input_ids)
        for _ in range(self.runs):
            self.one(inputs.clone())
        return self.two(inputs)


@pytest.fixture
def tiny() -> nn.Module:
    config = AutoConfig.for_model(
        "qwen2", hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=97, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config).eval()


def batches(count: int = 3, vocab: int = 97) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(0, vocab, (2, 10 + i), generator=generator) for i in range(count)]


def inputs_of(model: nn.Module, name: str) -> Tensor:
    """All rows that a layer reads, (n, K), by the other instrument's hooks."""
    inner = name.removeprefix("model.")
    return torch.cat([linear_inputs(model, ids)[inner].flatten(0, 1) for ids in batches()])  # type: ignore[arg-type]


def gram_margin(rows: Tensor) -> np.ndarray:
    """Of a sum of n products in fp32, whatever its order."""
    wide = rows.abs().double().numpy()
    return np.asarray(len(rows) * EPS * (wide.T @ wide))


def hooks(model: nn.Module) -> int:
    return sum(len(module._forward_pre_hooks) for module in model.modules())


@pytest.mark.parametrize("name", [LAYER, "model.layers.0.self_attn.v_proj", "model.layers.0.self_attn.o_proj"])
def test_statistics_against_numpy(tiny: nn.Module, name: str) -> None:
    rows, found = inputs_of(tiny, name), collect(tiny, batches())[name]
    wide = rows.double().numpy()
    assert found.count == len(rows) == 66
    np.testing.assert_array_equal(found.largest.numpy(), rows.abs().amax(0).numpy())
    np.testing.assert_array_equal(found.low.numpy(), rows.amin(0).numpy())
    np.testing.assert_array_equal(found.high.numpy(), rows.amax(0).numpy())
    np.testing.assert_allclose(found.mean_abs.numpy(), np.abs(wide).mean(0), rtol=4 * EPS)
    assert found.gram is not None
    assert bool((np.abs(found.gram.double().numpy() - wide.T @ wide) <= gram_margin(rows)).all())


def test_statistics_reject_one_batch_alone(tiny: nn.Module) -> None:
    """The wrong variant: a record that each batch overwrites."""
    rows = inputs_of(tiny, LAYER)
    last = collect(tiny, batches()[-1:])[LAYER]
    wide = rows.double().numpy()
    assert last.gram is not None
    assert not bool((np.abs(last.gram.double().numpy() - wide.T @ wide) <= gram_margin(rows)).all())
    assert last.count < len(rows)


def test_every_projection_is_seen_and_shared_inputs_are_kept_once(tiny: nn.Module) -> None:
    found = collect(tiny, batches())
    assert set(found) == set(projection_weights(tiny))
    block = {name.rsplit(".", 1)[1]: record for name, record in found.items() if "layers.0" in name}
    assert block["q_proj"] is block["k_proj"] is block["v_proj"]
    assert block["gate_proj"] is block["up_proj"]
    assert len({id(record) for record in found.values()}) == 8  # four per block


def test_a_later_layer_of_a_shared_input_alone(tiny: nn.Module) -> None:
    name = "model.layers.1.self_attn.v_proj"
    alone, among = collect(tiny, batches(), [name]), collect(tiny, batches())
    assert list(alone) == [name]
    assert torch.equal(alone[name].largest, among[name].largest)


def test_kept_rows_are_drawn_from_all_positions(tiny: nn.Module) -> None:
    rows = inputs_of(tiny, LAYER)
    found = collect(tiny, batches(), keep=Keep(rows=20))[LAYER].rows
    places = [torch.nonzero((rows == row).all(1))[:, 0].tolist() for row in found]
    assert len(found) == 20 and all(places)
    firsts = [place[0] for place in places]
    assert firsts == sorted(firsts) and firsts != list(range(20))
    assert torch.equal(found, collect(tiny, batches(), keep=Keep(rows=20))[LAYER].rows)
    assert not torch.equal(found, collect(tiny, batches(), keep=Keep(rows=20, seed=1))[LAYER].rows)


def test_more_rows_asked_than_there_are(tiny: nn.Module) -> None:
    assert torch.equal(collect(tiny, batches())[LAYER].rows, inputs_of(tiny, LAYER))
    assert collect(tiny, batches(), keep=replace(ALL, gram=False))[LAYER].gram is None


def same_statistics(first: InputStatistics, second: InputStatistics) -> bool:
    """Everything but the order of sums, and the rows kept."""
    assert first.gram is not None and second.gram is not None
    exact = all(torch.equal(getattr(first, name), getattr(second, name)) for name in ("largest", "low", "high"))
    return exact and first.count == second.count and torch.allclose(first.gram, second.gram, rtol=1e-4, atol=1e-5)


def test_parts_of_the_positions_against_their_whole(tiny: nn.Module) -> None:
    parts = collect_parts(tiny, batches(), [slice(None, 1), slice(1, None)])
    first, rest = (part[LAYER] for part in parts)
    assert (first.count, rest.count) == (6, 60)
    assert same_statistics(together(first, rest), collect(tiny, batches())[LAYER])
    assert not same_statistics(together(rest, rest), collect(tiny, batches())[LAYER])
    rows = torch.cat([linear_inputs(tiny, ids)[LAYER.removeprefix("model.")][:, 0] for ids in batches()])  # type: ignore[arg-type]
    assert torch.equal(first.rows, rows)
    few = collect_parts(tiny, batches(), [slice(None, 1), slice(1, None)], keep=Keep(rows=20))
    whole = collect(tiny, batches(), keep=Keep(rows=20))[LAYER].rows
    kept = torch.cat([part[LAYER].rows for part in few])
    assert sorted(kept.tolist()) == sorted(whole.tolist())  # a part keeps its share, not a number of its own


def test_silenced_channels_against_inputs_with_zeros_there(tiny: nn.Module) -> None:
    rows, channels = inputs_of(tiny, LAYER), torch.tensor([3, 17])
    zeroed = empty_statistics(80, gram=True)
    add_rows(zeroed, rows.index_fill(1, channels, 0), torch.ones(len(rows), dtype=torch.bool))
    found = without_channels(collect(tiny, batches())[LAYER], channels)
    assert same_statistics(found, zeroed)
    assert torch.equal(found.rows, zeroed.rows) and torch.allclose(found.mean_abs, zeroed.mean_abs)
    assert not same_statistics(collect(tiny, batches())[LAYER], zeroed)


def test_a_pass_ends_after_the_last_layer_of_interest(tiny: nn.Module) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a layer ran that nobody asked for")

    tiny.model.layers[1].mlp.gate_proj.register_forward_pre_hook(fail)
    assert collect(tiny, batches(), ["model.layers.1.self_attn.o_proj"])["model.layers.1.self_attn.o_proj"].count == 66
    with pytest.raises(AssertionError, match="nobody"):
        collect(tiny, batches(), [LAYER])


def toy_statistics() -> tuple[Tensor, InputStatistics]:
    model = Toy()
    return model.one.weight.detach(), collect(model, batches(vocab=20))["one"]


def test_constant_and_silent_channels_are_recognised() -> None:
    _, found = toy_statistics()
    assert torch.nonzero(found.constant)[:, 0].tolist() == [2, 5]
    assert found.largest[[2, 5]].tolist() == [3.0, 0.0]
    by_magnitude_alone = found.largest == found.mean_abs
    assert bool(by_magnitude_alone[2]) and not bool(by_magnitude_alone[[0, 1, 3, 4]].any())


@pytest.mark.parametrize("name", sorted(WEIGHT_TECHNIQUES))
def test_weight_techniques_on_constant_channels_and_groups_of_zeros(name: str) -> None:
    weights, found = toy_statistics()
    weights = weights.clone()
    weights[1] = 0
    rebuilt = WEIGHT_TECHNIQUES[name](weights, found, SCHEMES["int4-g32"])
    assert bool(torch.isfinite(rebuilt).all()) and not rebuilt[1].any()
    assert float((rebuilt - weights).norm() / weights.norm()) < 0.5


@pytest.mark.parametrize("name", sorted(PRODUCT_TECHNIQUES))
def test_product_techniques_on_constant_channels_and_rows_of_zeros(name: str) -> None:
    weights, found = toy_statistics()
    weights = weights.clone()
    weights[1] = 0
    outputs = PRODUCT_TECHNIQUES[name](found.rows, weights, smoothing({name: weights}, {name: found})[name])
    exact = found.rows @ weights.T
    assert bool(torch.isfinite(outputs).all()) and not outputs[:, 1].any()
    assert float((outputs - exact).norm() / exact.norm()) < 0.05


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_inputs_that_are_not_finite_are_refused_by_layer(tiny: nn.Module, bad: float) -> None:
    tiny.model.layers[1].mlp.up_proj.weight.data[0, 0] = bad
    with pytest.raises(NotFiniteError, match=r"layers\.1\.mlp\.down_proj"):
        collect(tiny, batches())
    assert hooks(tiny) == 0
    assert LAYER not in collect(tiny, batches(), ["model.layers.1.mlp.gate_proj"])


def test_hooks_are_gone_afterwards(tiny: nn.Module) -> None:
    collect(tiny, batches())
    assert hooks(tiny) == 0


def test_memory_is_limited(tiny: nn.Module) -> None:
    needed = record_bytes(80, ALL.rows)
    with pytest.raises(TooMuchToKeep, match="portions"):
        collect(tiny, batches(), keep=Keep(limit_bytes=needed))
    assert hooks(tiny) == 0
    assert list(collect(tiny, batches(), [LAYER], Keep(limit_bytes=needed))) == [LAYER]
    assert record_bytes(80, 10) == 4 * (80 * 80 + 10 * 80)
    assert record_bytes(80, 10, gram=False) == 4 * 10 * 80


def test_portions_cover_every_layer_once_within_the_limit(tiny: nn.Module) -> None:
    weights = projection_weights(tiny)
    limit = 2 * record_bytes(80)
    lots = portions(tiny, limit)
    assert [name for lot in lots for name in lot] == list(weights)
    assert all(sum(record_bytes(weights[name].shape[1]) for name in lot) <= limit for lot in lots)
    assert 2 < len(lots) < len(weights)
    for lot in lots:
        assert set(collect(tiny, batches(), lot, Keep(limit_bytes=limit))) == set(lot)
    with pytest.raises(TooMuchToKeep, match="down_proj alone"):
        portions(tiny, record_bytes(80) - 1)


def test_bad_requests_are_refused(tiny: nn.Module) -> None:
    with pytest.raises(ValueError, match="nowhere"):
        collect(tiny, batches(), ["model.nowhere"])
    with pytest.raises(ValueError, match="at least one token"):
        collect(tiny, [])
    with pytest.raises(ValueError, match="one row"):
        collect(tiny, batches(), keep=Keep(rows=0))


def test_a_layer_that_runs_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="more than once"):
        collect(Toy(runs=2), batches(vocab=20))


def test_half_precision_inputs_are_recorded_in_fp32() -> None:
    record = empty_statistics(4, gram=True)
    add_rows(record, torch.full((3, 4), 300.0, dtype=torch.float16), torch.ones(3, dtype=torch.bool))
    assert record.gram is not None
    assert float(record.gram[0, 1]) == 270_000  # beyond fp16
    assert record.rows.dtype == torch.float32
