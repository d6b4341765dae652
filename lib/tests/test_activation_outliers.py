"""The outlier measures, held against tensors whose answers can be read off, and against brute force."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from lib.activation_outliers import (
    CHAPTER_EDGES,
    carriers,
    dimension_at_quantile,
    dimension_maxima,
    distinct_levels,
    empty_bins_from,
    empty_octaves_below_top,
    entropy_bits,
    largest,
    layer_peak,
    level_use,
    levels_of_dimension,
    levels_per_dimension,
    levels_within,
    octave_edges,
    octave_histogram,
    outlier_features,
    position_share,
    without_its_peak,
    without_positions,
    without_top_dimensions,
)

# three positions, four dimensions: dimension 1 is massive at position 0 only, and negative
H = torch.tensor([[0.5, -300.0, 2.0, 0.1], [-1.0, 3.0, 4.0, 0.2], [0.25, -2.0, -5.0, 0.3]])


def seeded(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def test_maxima_of_a_hand_made_tensor() -> None:
    assert torch.equal(dimension_maxima(H), torch.tensor([1.0, 300.0, 5.0, 0.3]))


def test_maxima_reject_the_wrong_signed_maximum() -> None:
    assert not torch.equal(dimension_maxima(H), H.amax(dim=0))
    assert float(H.amax()) == 4.0  # the signed maximum would miss the massive entry altogether


def test_layer_peak_of_a_hand_made_tensor() -> None:
    peak = layer_peak(H)
    assert (peak.peak, peak.dimension, peak.position, peak.runner_up) == (300.0, 1, 0, 5.0)
    assert peak.median_dimension == 3.0  # between 1 and 5: four dimensions have no middle one
    assert peak.median_magnitude == 1.5  # between 1 and 2


def test_layer_peak_rejects_the_wrong_lower_median() -> None:
    assert layer_peak(H).median_dimension != float(dimension_maxima(H).median())


def test_carriers_are_the_positions_near_the_largest_one() -> None:
    assert carriers(H, 1) == [0]
    assert carriers(H, 2) == [0, 1, 2]
    assert carriers(H, 2, share=0.8) == [1, 2]
    assert carriers(H.repeat(3, 1), 1) == [0, 3, 6]


def test_carriers_reject_the_wrong_signed_column() -> None:
    wrong = torch.nonzero(H[:, 1] >= 0.1 * H[:, 1].max())[:, 0].tolist()
    assert wrong == [1] != carriers(H, 1)


def test_octave_histogram_against_numpy() -> None:
    values = torch.exp2(6 * seeded(896)).clamp(max=4000)
    assert octave_histogram(values) == np.histogram(values.numpy(), bins=np.array(CHAPTER_EDGES))[0].tolist()


def test_octave_histogram_puts_an_edge_into_the_bin_above() -> None:
    counts = octave_histogram(torch.tensor([0.0, 1.0, 2.0, 3.9, 1024.0, 2048.0]))
    assert counts == [1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 2]


def test_octave_histogram_rejects_the_wrong_bins_closed_above() -> None:
    values = torch.tensor([1.0, 2.0, 4.0])
    wrong = torch.bucketize(values, torch.tensor([float(e) for e in CHAPTER_EDGES])) - 1
    assert torch.bincount(wrong, minlength=12).tolist() != octave_histogram(values)


@pytest.mark.parametrize("outside", [4096.0, -0.1, math.inf, math.nan])
def test_octave_histogram_never_drops_a_value(outside: float) -> None:
    with pytest.raises(ValueError, match="1 values lie outside"):
        octave_histogram(torch.tensor([1.0, outside]))


def test_octave_edges_grow_until_they_cover_the_top() -> None:
    assert octave_edges(1579.6) == CHAPTER_EDGES
    assert octave_edges(4096.0) == (*CHAPTER_EDGES, 8192)
    assert octave_edges(22_485.0)[-3:] == (8192, 16384, 32768)


def test_empty_bins_are_counted_from_an_edge_upwards() -> None:
    counts = [5, 4, 0, 0, 3, 0]
    edges = (0, 1, 2, 4, 8, 16, 32)
    assert [empty_bins_from(counts, edges, start) for start in (0, 2, 4, 16)] == [0, 2, 1, 1]
    with pytest.raises(ValueError, match="3 is not in list"):
        empty_bins_from(counts, edges, 3)


def test_empty_octaves_below_the_top() -> None:
    assert empty_octaves_below_top(torch.tensor([1024.0, 127.9, 3.0])) == 3
    assert empty_octaves_below_top(torch.tensor([1024.0, 128.0, 3.0])) == 2
    assert empty_octaves_below_top(torch.tensor([70.0, 1000.0, 65.0])) == 2
    assert empty_octaves_below_top(torch.tensor([9.0, 15.0])) == 0


def test_levels_per_dimension_against_unique_column_by_column() -> None:
    codes = (5 * seeded(40, 17)).round().long()
    expected = [len(torch.unique(codes[:, j])) for j in range(17)]
    assert levels_per_dimension(codes).tolist() == expected
    assert distinct_levels(codes) == len(set(codes.flatten().tolist()))


def test_levels_per_dimension_reject_the_wrong_count_of_changes_in_order() -> None:
    codes = torch.tensor([[1], [2], [1], [2]])
    wrong = 1 + (codes[1:] != codes[:-1]).sum(dim=0)
    assert levels_per_dimension(codes).tolist() == [2] != wrong.tolist()


def test_entropy_in_bits() -> None:
    assert entropy_bits(torch.tensor([0, 1, 2, 3])) == 2.0
    assert entropy_bits(torch.tensor([7, 7, 7])) == 0.0
    assert entropy_bits(torch.tensor([0, 0, 0, 1])) == pytest.approx(2 - 0.75 * math.log2(3), rel=1e-12)


def test_entropy_rejects_the_wrong_natural_logarithm() -> None:
    assert entropy_bits(torch.tensor([0, 1])) == 1.0 != pytest.approx(math.log(2))


@pytest.mark.parametrize("bound", [0.1, 0.49, 0.51, 1.4, 1.6, 7.3, 126.6])
def test_levels_within_against_all_codes_of_a_fine_grid(bound: float) -> None:
    grid = torch.linspace(-bound, bound, 100_001, dtype=torch.float64)
    assert levels_within(0.3 * bound, 0.3) == len(torch.unique(torch.round(grid)))


def test_levels_within_reject_the_wrong_rounding_down() -> None:
    assert levels_within(1.6, 1.0) == 5 != 2 * math.floor(1.6) + 1


def test_without_top_dimensions_keeps_the_others_in_order() -> None:
    rest, kept = without_top_dimensions(H, 2)
    assert kept.tolist() == [0, 3]
    assert torch.equal(rest, H[:, [0, 3]])


def test_without_top_dimensions_rejects_the_wrong_signed_order() -> None:
    below_zero = -H.abs()
    assert without_top_dimensions(below_zero, 1)[1].tolist() == [0, 2, 3]
    assert int(below_zero.amax(dim=0).argmax()) == 3  # by signed maxima the smallest dimension would go


def test_without_positions_drops_rows() -> None:
    assert torch.equal(without_positions(H, [0]), H[1:])
    assert torch.equal(without_positions(H, []), H)


def test_one_massive_entry_leaves_half_of_the_dimensions_on_one_level() -> None:
    use = level_use(H)  # step 300/127 = 2.36: dimensions 0 and 3 never reach half of it, dimension 2 gives 1, 2, -2
    assert use.scale == pytest.approx(300 / 127)
    assert use.one_level_share == 0.5
    assert use.levels == 6  # -127, -2, -1, 0, 1, 2: dimension 1 gives -127, 1, -1
    assert use.zero_share == 0.5


def test_without_the_massive_row_no_dimension_is_left_on_one_level() -> None:
    use = level_use(without_positions(H, [0]))  # step 5/127 = 0.039: even 0.2 and 0.3 are codes 5 and 8
    assert use.one_level_share == 0.0
    assert use.levels == 8
    assert use.bits == 3.0


def test_level_use_rejects_the_wrong_scale_per_dimension() -> None:
    per_dimension = H / dimension_maxima(H)
    assert level_use(per_dimension).one_level_share != level_use(H).one_level_share


def test_levels_of_a_dimension_with_and_without_the_top_ones() -> None:
    assert levels_of_dimension(H, 2) == 3  # 2, 4, -5 over 2.36
    assert levels_of_dimension(H, 0) == 1
    assert levels_of_dimension(H, 0, without_top=1) == 3
    with pytest.raises(ValueError, match="dimension 1 is one of the top 1"):
        levels_of_dimension(H, 1, without_top=1)


def test_levels_of_a_dimension_reject_the_wrong_column_after_the_removal() -> None:
    rest, _ = without_top_dimensions(H, 2)  # columns 0 and 3 are left: column 1 of what is left is dimension 3
    assert torch.equal(rest[:, 1], H[:, 3])
    assert levels_of_dimension(H, 3, without_top=2) == 3
    with pytest.raises(ValueError, match="dimension 2 is one of the top 2"):
        levels_of_dimension(H, 2, without_top=2)


def test_without_its_peak_drops_the_row_of_the_largest_magnitude() -> None:
    assert torch.equal(without_its_peak(H), H[1:])
    assert largest(without_its_peak(H), 1) == 3.0
    assert largest(H, 1) == 300.0 != float(H[:, 1].max())


def test_dimension_at_quantile_goes_by_rank_of_the_maxima() -> None:
    assert [dimension_at_quantile(H, q) for q in (0.0, 0.3, 0.7, 1.0)] == [3, 0, 2, 1]


def test_outlier_features_against_loops() -> None:
    stream = seeded(8, 25, 30) * torch.linspace(0.5, 5, 30)
    expected = []
    for d in range(30):
        column = stream[:, :, d].abs().numpy()
        layers = [bool((column[layer] >= 6).any()) for layer in range(8)]
        if (column >= 6).sum() >= 0.06 * column.size and sum(layers) >= 2:
            expected.append(d)
    assert 0 < len(expected) < 30
    assert outlier_features(stream) == expected


def test_outlier_features_reject_a_dimension_that_is_massive_at_one_position_only() -> None:
    stream = torch.zeros(24, 84, 3)
    stream[:, 0, 1] = 1579.6
    stream[:, ::10, 2] = 7.0
    assert outlier_features(stream) == [2]
    assert position_share(stream, 1) == 1 / 84


def test_a_histogram_has_every_bin_though_the_last_ones_are_empty() -> None:
    assert octave_histogram(torch.tensor([2.0, 3.0]), (2, 4, 8, 16)) == [2, 0, 0]
