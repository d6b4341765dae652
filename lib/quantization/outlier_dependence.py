"""Which techniques live on the outliers: what each gives back with them, and what is left of that without them.

"Without" leaves out both things that the outliers are made of, on the calibrating and on the judging side alike: the
first token of every sequence, which carries the massive activations, and the input channels with the largest
magnitudes, which are set to zero. A technique that owes its gain to the outliers loses it then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log

import torch
from torch import Tensor, nn

from lib.clusters import cluster_interval, cluster_mean
from lib.intervals import Estimate
from lib.parallel import map_on_cores
from lib.quantization.calibration import InputStatistics, Keep, collect_parts, together, without_channels
from lib.quantization.recovery import (
    Corpora,
    Recovery,
    product_recovery,
    smoothing,
    weight_recovery,
)
from lib.quantization.schemes import Scheme
from lib.resampling import paired_interval, relative_drop
from lib.unmeasurable import Unmeasurable
from lib.weight_stats import projection_weights

FIRST, REST = slice(None, 1), slice(1, None)

Parts = Sequence[Mapping[str, InputStatistics]]
"""What the first tokens' inputs were, and those of all others, by layer."""

Table = Mapping[str, Mapping[str, Recovery]]
"""Layer → technique → what it leaves."""


@dataclass(frozen=True)
class Dependence:
    """The same layers and techniques with the outliers and without them. A layer may lack a technique."""

    present: Table
    absent: Table

    def layers(self, technique: str, kinds: Iterable[str] = ()) -> list[str]:
        """The layers that have this technique on both sides and, if kinds are given, end in one of them."""
        wanted = tuple(kinds)
        both = [n for n, table in self.present.items() if technique in table and technique in self.absent[n]]
        return [name for name in both if not wanted or name.endswith(wanted)]

    def drop(self, plain: str, technique: str, kinds: Iterable[str] = ()) -> Estimate:
        """By which share the mean error of the median token falls from the plain way to the technique; over layers.

        Raises Unmeasurable for a layer without error.
        """
        layers = self.layers(technique, kinds)
        before, after = (_errors(self.present, layers, name) for name in (plain, technique))
        if not all(before):
            raise Unmeasurable(
                "a layer of this model loses nothing to rounding, as one of zeros does: nothing to regain"
            )
        return paired_interval([before, after], relative_drop)

    def gain_left(self, plain: str, technique: str, kinds: Iterable[str] = ()) -> Estimate:
        """What is left of the gain without the outliers, as a share: 0 all gone, 1 as before. Over layers.

        The gain is the mean logarithm of the plain error over the technique's. Raises ValueError where these layers
        cannot tell it from none, Unmeasurable for a layer without error.
        """
        layers = self.layers(technique, kinds)
        gains = [
            [[_log_ratio(table[n][plain].token_error, table[n][technique].token_error)] for n in layers]
            for table in (self.present, self.absent)
        ]
        if not cluster_mean(gains[0]).low > 0:
            raise ValueError(f"{technique} gains nothing over {plain} that could be told from nothing: none to lose")
        return cluster_interval(gains, lambda before, after: after / before)


@torch.no_grad()
def dependence(model: nn.Module, names: Iterable[str], corpora: Corpora, scheme: Scheme, *, top: int) -> Dependence:
    """The techniques on these layers, with all inputs, and without first tokens and the `top` loudest channels.

    The judging side is kept whole. GPTQ is left out where a layer has more input channels than there are calibrating
    tokens: its second moments are singular then. Raises as `collect` does.
    """
    chosen = list(names)
    weights = {name: projection_weights(model)[name].to("cpu", torch.float32) for name in chosen}
    parts = collect_parts(model, corpora.calibration, [FIRST, REST], chosen)
    loud = {name: _whole(parts, name).largest.topk(top).indices for name in chosen}
    every = sum(ids.numel() for ids in corpora.held_out)
    fresh = collect_parts(model, corpora.held_out, [FIRST, REST], chosen, Keep(every, gram=False))
    work = []
    for condition in (_present, partial(_absent, loud)):
        seen = condition(parts)
        factors, judged = smoothing(weights, seen), condition(fresh)
        work += [(weights[name], seen[name], factors[name], judged[name].rows, scheme) for name in chosen]
    done = map_on_cores(_one_layer, work)
    return Dependence(dict(zip(chosen, done, strict=False)), dict(zip(chosen, done[len(chosen) :], strict=True)))


def _whole(parts: Parts, name: str) -> InputStatistics:
    return together(parts[0][name], parts[1][name])


def _present(parts: Parts) -> dict[str, InputStatistics]:
    """All rows; layers that share a record go on sharing one."""
    made = {id(parts[1][name]): _whole(parts, name) for name in parts[1]}
    return {name: made[id(record)] for name, record in parts[1].items()}


def _absent(loud: Mapping[str, Tensor], parts: Parts) -> dict[str, InputStatistics]:
    """Without first tokens and loud channels; shared as before."""
    made = {id(record): without_channels(record, loud[name]) for name, record in parts[1].items()}
    return {name: made[id(record)] for name, record in parts[1].items()}


def _one_layer(work: tuple[Tensor, InputStatistics, Tensor, Tensor, Scheme]) -> dict[str, Recovery]:
    weights, seen, factors, judged, scheme = work
    enough = seen.count >= weights.shape[1]
    names = [name for name in ("rtn", "awq", "gptq") if enough or name != "gptq"]
    return weight_recovery(weights, seen, judged, scheme, names) | product_recovery(weights, factors, judged)


def _errors(table: Table, layers: Iterable[str], technique: str) -> list[float]:
    return [table[layer][technique].token_error for layer in layers]


def _log_ratio(before: float, after: float) -> float:
    if not before or not after:
        raise Unmeasurable("a layer of this model is rebuilt without any error: no ratio of errors")
    return log(before / after)
