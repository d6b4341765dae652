"""Other people's quantizers against ours, and where they differ, which of the two the definition says is wrong.

torch's fake quantization and gguf's numpy quantizers are always there; bitsandbytes comes with the extra `peers` and
its tests skip without it.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from torch import Tensor

from lib.quantization import absmax, affine, nf4
from lib.quantization.mixed import int8_product, mixed_product, outlier_columns, rounded
from lib.quantization.schemes import SCHEMES, Scheme
from lib.tests.test_nf4 import PUBLISHED_ROUNDING

EPS = float(torch.finfo(torch.float32).eps)
# A code's argument w / scale passes two roundings here and three elsewhere (reciprocal, product), of half a unit each.
TIE_ULPS = 5
Q8_0, Q4_0 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0
INT8_G32 = Scheme("int8-g32", "INT8, group of 32", "absmax", 8, 32)
KNOWN_BITSANDBYTES = "0.50.2"  # the release whose faults are pinned below; another one may have mended them


def weights(rows: int = 48, columns: int = 256, seed: int = 0) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def from_tie(values: Tensor, scales: Tensor) -> Tensor:
    """How far each value is from the middle between two codes, in codes."""
    return ((values.double() / scales.double()).abs() % 1 - 0.5).abs()


def test_int8_rows_against_torch_fake_quantize_per_channel() -> None:
    w = weights()
    scales = absmax.absmax(w) / 127
    theirs = torch.fake_quantize_per_channel_affine(w, scales[:, 0], torch.zeros(48, dtype=torch.int32), 0, -128, 127)
    apart = (rounded(w) - theirs).abs() > scales / 2
    assert bool((from_tie(w, scales)[apart] <= TIE_ULPS * EPS * 127).all())
    assert int(apart.sum()) <= 2
    others = torch.fake_quantize_per_channel_affine(
        w, scales[:, 0].flip(0), torch.zeros(48, dtype=torch.int32), 0, -128, 127
    )
    assert int(((rounded(w) - others).abs() > scales / 2).sum()) > w.numel() // 4  # another row's scale


def test_affine_groups_against_torch_fake_quantize_per_channel() -> None:
    groups = weights().reshape(-1, 32)
    scales, low = affine.affine_range(groups, 4)
    zeros = affine.zero_points(scales, low, 4)
    ours = affine.decode(affine.encode(groups, scales, zeros, 4), scales, zeros)
    theirs = torch.fake_quantize_per_channel_affine(groups, scales[:, 0], zeros[:, 0].to(torch.int32), 0, 0, 15)
    apart = (ours - theirs).abs() > scales / 2
    assert bool((from_tie(groups, scales)[apart] <= TIE_ULPS * EPS * 15).all()) and int(apart.sum()) <= 2
    symmetric = torch.fake_quantize_per_channel_affine(
        groups, scales[:, 0], torch.full((384,), 8, dtype=torch.int32), 0, 0, 15
    )
    assert int(((ours - symmetric).abs() > scales / 2).sum()) > 100


def gguf_blocks(w: Tensor, kind: gguf.GGMLQuantizationType) -> tuple[Tensor, Tensor]:
    """Scales (N, 1) fp16 and everything rebuilt (N, 32), as gguf's numpy quantizer stores and reads them."""
    stored = gguf.quants.quantize(w.numpy(), kind)
    scales = stored.reshape(-1, stored.shape[1] * 32 // w.shape[1])[:, :2].copy().view(np.float16)
    return torch.from_numpy(scales), torch.from_numpy(gguf.quants.dequantize(stored, kind)).reshape(-1, 32)


def test_q8_0_against_int8_groups_of_32() -> None:
    """Scales are the same to the bit. Codes: gguf rounds against the scale before it is stored, we against the stored.

    By the definition, the nearest code to what will be read back, ours is right: wherever they differ, ours is nearer.
    """
    w = weights(256, 512)
    quantized = INT8_G32.quantize(w)
    scales, theirs = gguf_blocks(w, Q8_0)
    assert torch.equal(scales, quantized.scales)
    ours, groups = INT8_G32.dequantize(quantized), INT8_G32.groups(w)
    apart = ours != theirs
    assert 0 < int(apart.sum()) < w.numel() // 50
    assert bool(((ours - groups).abs() <= (theirs - groups).abs() * (1 + 127 * TIE_ULPS * EPS))[apart].all())
    assert int((ours != theirs.roll(1, 0)).sum()) > w.numel() // 2


def test_q4_0_is_another_definition_than_int4_groups_of_32() -> None:
    """Q4_0 spends its sixteenth code on the side of the largest weight: a step of 1/8 of it where ours is 1/7.

    The largest weight is kept by either; one of the same size and the other sign is cut by a whole step in Q4_0.
    """
    w = weights()
    scales, theirs = gguf_blocks(w, Q4_0)
    groups = w.reshape(-1, 32)
    torch.testing.assert_close(scales.float().abs() * 8, absmax.absmax(groups), rtol=2**-10, atol=0)
    assert not torch.allclose(scales.float().abs() * 7, absmax.absmax(groups), rtol=2**-10)
    pair = torch.zeros(1, 32)
    pair[0, 3], pair[0, 9] = -2.0, 2.0
    ours = SCHEMES["int4-g32"].reconstruct(pair)[0, [3, 9]]
    torch.testing.assert_close(ours, torch.tensor([-2.0, 2.0]), rtol=2**-10, atol=0)
    assert gguf_blocks(pair, Q4_0)[1][0, [3, 9]].tolist() == [-2.0, 1.75]
    codes = theirs / scales.float()
    assert float((codes - codes.round()).abs().max()) < 1e-5 and set(codes.round().flatten().tolist()) == set(
        range(-8, 8)
    )


def test_blocks_of_zeros_against_gguf() -> None:
    zeros = torch.zeros(2, 64)
    for kind, scheme in ((Q8_0, INT8_G32), (Q4_0, SCHEMES["int4-g32"])):
        assert not gguf_blocks(zeros, kind)[1].any() and not scheme.reconstruct(zeros).any()


@pytest.fixture(scope="module")
def bitsandbytes() -> Any:
    return pytest.importorskip("bitsandbytes", exc_type=ImportError)


def straddling() -> tuple[Tensor, Tensor]:
    """Weights (4, 96) and what NF4 in blocks of 64 makes of them, blocks running on over the ends of rows."""
    w = weights(4, 96)
    groups = w.reshape(-1, 64)
    scales = groups.abs().amax(1, keepdim=True)
    book = nf4.nf4_levels()
    return w, nf4.decode(nf4.encode(groups, scales, book), scales, book).reshape(4, 96)


def test_nf4_blocks_over_the_ends_of_rows_against_bitsandbytes(bitsandbytes: Any) -> None:
    """It stores what the definition says, and on a CPU reads it back with another block's scale: theirs is wrong."""
    w, expected = straddling()
    packed, state = bitsandbytes.functional.quantize_4bit(w, blocksize=64, quant_type="nf4")
    codes = torch.stack([packed.reshape(-1) >> 4, packed.reshape(-1) & 0xF], dim=1).reshape(-1, 64)
    from_their_codes = nf4.decode(codes, state.absmax[:, None], nf4.nf4_levels()).reshape(4, 96)
    torch.testing.assert_close(from_their_codes, expected, rtol=4 * EPS, atol=0)
    levels = PUBLISHED_ROUNDING * float(state.absmax.max())
    theirs = bitsandbytes.functional.dequantize_4bit(packed, state)
    torch.testing.assert_close(theirs[0], expected[0], rtol=4 * EPS, atol=levels)
    if version("bitsandbytes") == KNOWN_BITSANDBYTES:
        assert not torch.allclose(theirs[1:], expected[1:], rtol=0.01)
    whole = weights(4, 128)
    packed, state = bitsandbytes.functional.quantize_4bit(whole, blocksize=64, quant_type="nf4")
    ours = Scheme("nf4-b64-fp32", "", "nf4", 4, 64, torch.float32).reconstruct(whole)
    torch.testing.assert_close(bitsandbytes.functional.dequantize_4bit(packed, state), ours, rtol=4 * EPS, atol=levels)


def test_int8_rows_against_bitsandbytes(bitsandbytes: Any) -> None:
    w = weights()
    codes, largest, _ = bitsandbytes.functional.int8_vectorwise_quant(w.clone())
    assert torch.equal(largest[:, None], absmax.absmax(w))
    apart = absmax.encode(w, largest[:, None] / 127, 8) != codes
    assert bool((from_tie(w, largest[:, None] / 127)[apart] <= TIE_ULPS * EPS * 127).all()) and int(apart.sum()) <= 2
    assert int((absmax.encode(w, largest.flip(0)[:, None] / 127, 8) != codes).sum()) > w.numel() // 4


def test_outlier_columns_against_bitsandbytes(bitsandbytes: Any) -> None:
    x = weights()
    x[3, 17], x[9, 17], x[5, 40], x[7, 41] = 6.0, 30.0, -8.0, 5.9999
    _, _, columns = bitsandbytes.functional.int8_vectorwise_quant(x.clone(), threshold=6.0)
    assert columns.tolist() == torch.nonzero(outlier_columns(x))[:, 0].tolist() == [17, 40]


def test_scales_beside_outliers_against_bitsandbytes(bitsandbytes: Any) -> None:
    """It leaves outlying entries out of a row's scale, the paper's definition outlying columns: ours has finer steps.

    A row's largest entry of 5 lies in a column that another row makes an outlier, so that it is never coded.
    """
    x = weights(4, 64) / 4
    x[0, 9], x[1, 9] = 5.0, 20.0
    _, largest, _ = bitsandbytes.functional.int8_vectorwise_quant(x.clone(), threshold=6.0)
    others = torch.arange(64) != 9
    assert float(largest[0]) == 5.0
    assert float(absmax.absmax(x[:, others])[0]) < 1.5
    w = weights(8, 64, seed=1)
    rest = mixed_product(x, w) - (x[:, 9, None].half().float() * w[:, 9].half().float())
    torch.testing.assert_close(rest, int8_product(x[:, others], w[:, others]), rtol=1e-4, atol=1e-4)


def test_product_of_codes_against_bitsandbytes(bitsandbytes: Any) -> None:
    """Its constant for 1 / 127², 6.200124e-05, has a digit missing: products come out 1.8e-5 too large on a CPU."""
    x, w = weights(6), weights(5, seed=1)
    (x_codes, x_largest, _), (w_codes, w_largest, _) = (
        bitsandbytes.functional.int8_vectorwise_quant(m) for m in (x, w)
    )
    sums = bitsandbytes.functional.int8_linear_matmul(x_codes, w_codes)
    assert torch.equal(sums.double(), x_codes.double() @ w_codes.double().T)
    theirs = torch.ops.bitsandbytes.int8_mm_dequant.default(sums, x_largest, w_largest, dtype=torch.float32)
    exact = sums.double() * x_largest.double()[:, None] * w_largest.double() / 127**2
    torch.testing.assert_close(int8_product(x, w).double(), exact, rtol=4 * EPS, atol=0)
    if version("bitsandbytes") == KNOWN_BITSANDBYTES:
        torch.testing.assert_close(
            theirs.double() / exact, torch.full_like(exact, 6.200124e-05 * 127**2), rtol=8 * EPS, atol=0
        )
        assert float((theirs.double() / exact).min()) > 1.00001


def test_rows_of_zeros_against_bitsandbytes(bitsandbytes: Any) -> None:
    """127 / 0 times 0 is no number there, and what an integer makes of that is nobody's definition; ours are zeros."""
    w = weights(3, 32)
    w[1] = 0
    codes, largest, _ = bitsandbytes.functional.int8_vectorwise_quant(w.clone())
    assert float(largest[1]) == 0 and not absmax.encode(w, absmax.absmax(w) / 127, 8)[1].any()
    assert not (codes[1].float() * largest[1] / 127).any()  # whatever the codes are, they are read back as zeros
