"""What an instrument says of a model that leaves it nothing to measure: a refusal with its reason, never a plain error.

Each call is made with a broken input, and with one that is as sound as it gets: an instrument that refuses everything
would pass the first alone.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import bootstrap

from lib import activation_outliers as outliers
from lib import block_shape, greedy_compare, kv_prefix
from lib.decoding import Generated, refuse_broken
from lib.distillation.gradients import gradient_share
from lib.distillation.students import Lessons
from lib.distillation.temperature import log_soften
from lib.quantization.comparison import ladder_summary
from lib.quantization.errors import ErrorTable, fidelity, rebuild, scheme_error
from lib.quantization.outlier_dependence import Dependence
from lib.quantization.schemes import SCHEMES
from lib.resampling import mean_difference, paired_interval
from lib.serving.requests import Sampling
from lib.serving.sampling import choice
from lib.speculative.sampling import Greedy, distribution
from lib.tensor_scale import closed_gap, largest_taken_out
from lib.tests.tiny_gguf import tiny_model
from lib.unmeasurable import Unmeasurable
from lib.weight_stats import distinct_per_block

NAN, INF = math.nan, math.inf
ROWS, COLUMNS = 4, 128
SCHEME = SCHEMES["int8-row"]


def matrix(scale=1.0, columns=COLUMNS):
    return scale * torch.randn(ROWS, columns, generator=torch.Generator().manual_seed(0))


def logits(last=0.5):
    return torch.tensor([1.0, 2.0, last])


def lessons(teacher):
    return Lessons(
        torch.zeros(1, 2), torch.tensor([[teacher]]).log(), torch.zeros(1, 3).long(), torch.zeros(1, 3).long()
    )


def replies(last):
    rows = logits(last).expand(1, 2, 3)
    made = Generated(rows.argmax(-1), rows)
    return greedy_compare.compare(made, made)


CASES = {
    "a softened row": (lambda x: log_soften(logits(x), 2.0), 0.5, NAN, "no finite largest value"),
    "a teacher": (lambda x: lessons([0.5, x]), 0.5, NAN, "chances are no numbers"),
    "a choice": (lambda x: choice(logits(x)), 0.5, NAN, "logits that are not numbers"),
    "a draft's choice": (lambda x: Greedy().draw(logits(x)), 0.5, INF, "logits that are not numbers"),
    "chances": (lambda x: distribution(logits(x), Sampling(1.0)), 0.5, NAN, "logits that are not numbers"),
    "errors": (lambda x: scheme_error(SCHEME, matrix(x)), 1e3, 1e30, "weights are too large"),
    "rebuilding": (lambda x: rebuild(SCHEME, matrix(x), matrix()), 1e3, 1e30, "weights are too large"),
    "a direction": (lambda x: fidelity(SCHEME, matrix(x)), 1.0, 0.0, "a matrix of zeros has no direction"),
    "a large matrix": (lambda x: fidelity(SCHEME, matrix(x)), 1e3, 1e30, "weights are too large"),
    "a gap": (lambda x: closed_gap([x, 0.5], 0.5), 1.0, 0.5, "no gap from 0.5 down to 0.5"),
    "the largest taken out": (lambda x: largest_taken_out(matrix(x)), 1.0, 0.0, "zeros has no relative error"),
    "a ladder": (lambda x: ladder_summary(ladder(x), 1, 1), 0.5, 0.0, "loses nothing to int4-row"),
    "a drop": (lambda x: dependent(x).drop("rtn", "gptq"), 0.5, 0.0, "nothing to regain"),
    "a gain": (lambda x: dependent(x).gain_left("rtn", "gptq"), 0.5, 0.0, "no ratio of errors"),
    "a gradient": (lambda x: gradient_share(torch.tensor([x, -x]), [0]), 1.0, 0.0, "a gradient of zero has no shares"),
    "values of a block": (lambda n: distinct_per_block(matrix(columns=n)), 32, 8, "8 columns are shorter than a block"),
    "blocks": (lambda n: rejected(matrix(columns=n)), 64, 8, "no block of 64 weights"),
    "blocks of zeros": (lambda x: rejected(matrix(x)), 1.0, 0.0, "no block of 64 weights"),
    "pooled blocks": (lambda n: pooled(matrix(columns=n), matrix(columns=8)), 64, 8, "no matrix has a whole block"),
    "a dimension": (lambda d: outliers.levels_of_dimension(peaked(), d, 1), 0, 3, "is one of the top 1 of 8"),
    "octaves": (outliers.octave_edges, 1e30, INF, "no octave holds a largest value of inf"),
    "empty octaves": (lambda x: outliers.empty_octaves_below_top(torch.tensor([0.0, 0.0, 4.0, x])), 1.0, 0.0, "zero"),
    "replies": (replies, 0.5, INF, "are not finite: there is nothing to compare"),
    "keys": (lambda x: kv_prefix._relative(matrix(), matrix() + x), 1.0, NAN, "keys and values are not finite"),
    "a pass": (lambda x: refuse_broken(model(x), torch.tensor([[1, 2]])), 1.0, NAN, "chooses nothing"),
}  # fmt: skip


def peaked():
    h = matrix(columns=8)
    h[0, 3] = 100
    return h


def rejected(weights):
    return block_shape.rejected_shares({"w": weights}, 64, 1)


def pooled(*matrices):
    return block_shape.scaled_histogram(block_shape.blocks_of(weights, 64) for weights in matrices)


def ladder(error):
    return ErrorTable(
        {s: {"a": 0.5, "b": error} for s in ("int4-tensor", "int4-row")} | {"int8-row": {"a": 0.1, "b": 0.1}}
    )


def dependent(error):
    """Two layers under plain rounding and a technique; the first of them is what is broken."""
    table = {
        n: {"rtn": SimpleNamespace(token_error=e), "gptq": SimpleNamespace(token_error=e / 2)}
        for n, e in {"a": error, "b": 0.4, "c": 0.3}.items()
    }
    return Dependence(table, table)


def model(factor):
    made = tiny_model()
    with torch.no_grad():
        made.model.norm.weight.mul_(factor)
    return made


@pytest.mark.parametrize("what", CASES)
def test_a_model_that_leaves_nothing_to_measure_is_refused_with_the_reason(what):
    call, sound, broken, reason = CASES[what]
    call(sound)
    with pytest.raises(Unmeasurable, match=reason):
        call(broken)


def test_replies_of_zeros_are_refused():
    rows = torch.zeros(1, 2, 3)
    with pytest.raises(Unmeasurable, match="are all zero"):
        greedy_compare.compare(Generated(rows.argmax(-1), rows), Generated(rows.argmax(-1), rows))


WRONG_CALLS = {
    "no such dimension": lambda: outliers.levels_of_dimension(peaked(), 8, 1),
    "a temperature of zero": lambda: log_soften(logits(), 0.0),
    "a situation left out": lambda: lessons([0.0, 0.0]),
    "an edge left out": lambda: outliers.octave_histogram(torch.tensor([5.0]), (0, 1)),
    "a column with a gap": lambda: paired_interval([[1.0, NAN], [1.0, 2.0]]),
}


@pytest.mark.parametrize("what", WRONG_CALLS)
def test_a_wrong_call_is_no_property_of_a_model(what):
    """The wrong variant: what our own code gets wrong must stay an error on every model."""
    with pytest.raises(ValueError) as found:  # noqa: PT011  # each has a test of its words elsewhere
        WRONG_CALLS[what]()
    assert not isinstance(found.value, Unmeasurable)


def test_keys_that_are_all_zero_are_equal_and_nothing_else():
    zeros = torch.zeros(2, 3)
    assert kv_prefix._relative(zeros, zeros) == 0 and kv_prefix._relative(zeros + 1, zeros) == INF


def test_maxima_beyond_every_integer_are_counted():
    top = 2.0**100
    counts = outliers.octave_histogram(torch.tensor([0.5, 2.0**70, top]), outliers.octave_edges(top))
    assert sum(counts) == 3 and counts[0] == counts[-1] == 1


def test_a_statistic_that_no_unit_moves_has_a_width_of_zero_whatever_the_order_of_its_sums():
    """The ratio of two sums that are equal for every selection, but not summed in one order over all of them."""

    def ratio(index, axis=-1):
        kept = np.asarray(index)
        return np.where(kept.shape[-1] == 5, 1 - 2.0**-53, 1.0) * np.ones(kept.shape[:-1])

    found = paired_interval([[0.0, 1.0, 2.0, 3.0, 4.0]], ratio)
    assert found.low == found.value == found.high
    with pytest.raises(RuntimeWarning, match="invalid value"):  # the wrong variant: scipy, asked all the same
        bootstrap([np.arange(5.0)], ratio, paired=True, n_resamples=20, method="BCa", rng=np.random.default_rng(0))


def test_a_statistic_that_units_do_move_keeps_its_width():
    found = paired_interval([[1.0, 2.0, 4.0, 8.0], [1.0, 1.0, 2.0, 3.0]], mean_difference)
    assert found.low < found.value < found.high
