"""Do the keys and values of a prefix stay what they were? Two caches compared by layer, and how far rounding goes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel
from transformers.cache_utils import Cache

from lib.decoding import decode_step, layer_tensors, prefill
from lib.unmeasurable import Unmeasurable


@dataclass(frozen=True)
class LayerDifference:
    """One layer's keys and values in two caches: equal in every bit, and the larger relative distance of the two.

    relative: Frobenius norm of the difference over the norm of the reference, whichever of K and V is worse.
    """

    bit_equal: bool
    relative: float


def prefix_differences(cache: Cache, reference: Cache, positions: int) -> list[LayerDifference]:
    """Compare the first ``positions`` positions of two caches, layer by layer; each cache may hold more than that.

    Raises ValueError when one of them holds fewer, or when they have different numbers of layers.
    """
    differences = []
    for pair, reference_pair in zip(layer_tensors(cache), layer_tensors(reference), strict=True):
        if min(t.shape[-2] for t in (*pair, *reference_pair)) < positions:
            raise ValueError(f"one of the caches holds fewer than {positions} positions")
        sides = [
            (a[..., :positions, :], b[..., :positions, :]) for a, b in zip(pair, reference_pair, strict=True)
        ]  # fmt: skip
        equal = all(torch.equal(a, b) for a, b in sides)
        differences.append(LayerDifference(equal, max(_relative(a, b) for a, b in sides)))
    return differences


@dataclass(frozen=True)
class PrefixStudy:
    """The first ``cut`` positions of a sequence, computed again in three ways and once on another past; by layer.

    same_shape: other tokens after the cut. shorter: nothing after the cut. stepped: one position at a time from the
    middle of the prefix. other_past: an earlier token exchanged, which must show.
    """

    same_shape: list[LayerDifference]
    shorter: list[LayerDifference]
    stepped: list[LayerDifference]
    other_past: list[LayerDifference]

    @property
    def ways(self) -> dict[str, list[LayerDifference]]:
        """The three computations whose prefix must not differ, by how they were done."""
        return {
            "in one pass with other later tokens": self.same_shape,
            "in one pass without later tokens": self.shorter,
            "one position at a time": self.stepped,
        }


def study_prefix(model: PreTrainedModel, ids: Tensor, cut: int) -> PrefixStudy:
    """Recompute the keys and values of ids[:, :cut] against those of one pass over all of ids (1, n)."""
    vocab = model.config.get_text_config().vocab_size
    whole = prefill(model, ids).cache
    tail = torch.cat([ids[:, :cut], (ids[:, cut:] + 1) % vocab], dim=1)
    past = torch.cat([(ids[:, :1] + 1) % vocab, ids[:, 1:]], dim=1)
    stepped = prefill(model, ids[:, : cut // 2]).cache
    for position in range(cut // 2, cut):
        decode_step(model, ids[:, position : position + 1], stepped)
    again = (prefill(model, tail).cache, prefill(model, ids[:, :cut]).cache, stepped, prefill(model, past).cache)
    return PrefixStudy(*(prefix_differences(cache, whole, cut) for cache in again))


def largest(differences: list[LayerDifference]) -> float:
    """The largest relative distance of any layer."""
    return max(layer.relative for layer in differences)


def bit_equal(differences: list[LayerDifference]) -> bool:
    """Whether every layer is the same in every bit."""
    return all(layer.bit_equal for layer in differences)


def rounding_bound(config: PretrainedConfig, dtype: torch.dtype) -> float:
    """How far apart, relative to their size, two orders of summation may put the results of one forward pass.

    A sum of K products carries a relative rounding error of about sqrt(K)·u with high probability (Higham and Mary
    2019, SIAM J. Sci. Comput. 41(5)); K is the widest product of the model (its MLP), u the unit roundoff of the
    format, and the errors of the L layers are taken to add up. An estimate from above, not a proof.
    """
    text = config.get_text_config()
    widest = getattr(text, "intermediate_size", None) or 4 * text.hidden_size  # where none is named, it is four times
    unit_roundoff = torch.finfo(dtype).eps / 2
    return float(text.num_hidden_layers * math.sqrt(widest) * unit_roundoff)


def _relative(a: Tensor, b: Tensor) -> float:
    distance, size = float((a.double() - b.double()).norm()), float(b.double().norm())
    if not math.isfinite(distance + size):
        raise Unmeasurable("this model's keys and values are not finite: there is nothing to compare")
    return distance / size if size else (math.inf if distance else 0.0)
