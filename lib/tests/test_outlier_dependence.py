"""Gains with and without outliers: against tables by hand, and on a model whose outliers are planted."""

from __future__ import annotations

import pytest
import torch
from transformers import PreTrainedModel

from lib.quantization.outlier_dependence import Dependence, dependence
from lib.quantization.recovery import Corpora, Recovery
from lib.quantization.schemes import SCHEMES
from lib.tests.tiny_qwen2 import tiny_qwen2

SCHEME = SCHEMES["int4-g32"]
LOUD_TOKEN, LOUD_CHANNEL = 96, 5


def table(plain: float, technique: float) -> dict[str, Recovery]:
    return {"plain": Recovery(9.0, plain, 8, 8), "better": Recovery(9.0, technique, 8, 8)}


def test_shares_against_their_definition() -> None:
    """A gain of a factor 4 that becomes one of 2 is half left, in logarithms; the wrong variant: errors over all."""
    found = Dependence(
        {"a.up": table(0.4, 0.1), "b.up": table(0.8, 0.2)}, {"a.up": table(0.2, 0.1), "b.up": table(0.6, 0.3)}
    )
    assert float(found.gain_left("plain", "better").value) == pytest.approx(0.5)
    assert float(found.drop("plain", "better").value) == pytest.approx(0.75)
    swapped = Dependence(found.absent, found.present)
    assert float(swapped.gain_left("plain", "better").value) == pytest.approx(2.0)


def test_layers_are_chosen_by_technique_and_kind() -> None:
    both, one = table(0.4, 0.1), {"plain": Recovery(1.0, 0.4, 8, 8)}
    present = {"a.up": both, "a.down": both, "b.down": both}
    found = Dependence(present, present | {"a.down": one})  # too few rows, once the first tokens are left out
    assert found.layers("better") == ["a.up", "b.down"]
    assert found.layers("plain", ["down"]) == ["a.down", "b.down"]


def test_no_gain_is_nothing_to_lose() -> None:
    worse = {name: table(0.1, 0.2) for name in ("a", "b")}
    hardly = {name: table(0.1, 0.1 if name < "f" else 0.099) for name in "abcdefg"}  # some gain nothing at all
    for found in (worse, hardly):
        with pytest.raises(ValueError, match="none to lose"):
            Dependence(found, found).gain_left("plain", "better")


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    """The first token of every prompt, and it alone, has a huge entry in one channel of the stream."""
    found = tiny_qwen2(64, 96)
    found.get_input_embeddings().weight.data[LOUD_TOKEN, LOUD_CHANNEL] = 50
    return found


def corpora(loud: bool = True) -> Corpora:
    batches = [torch.randint(0, 90, (8, 30), generator=torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    for ids in batches:
        ids[:, 0] = LOUD_TOKEN if loud else 0
    return Corpora(*([ids] for ids in batches))


def test_planted_outliers_are_what_a_scale_per_token_lives_on(model: PreTrainedModel) -> None:
    names = [f"model.layers.{i}.{kind}" for i in (0, 1) for kind in ("self_attn.q_proj", "self_attn.k_proj")]
    names += ["model.layers.0.mlp.gate_proj", "model.layers.0.mlp.up_proj"]
    found = dependence(model, names, corpora(), SCHEME, top=1)
    assert list(found.present) == list(found.absent) == names
    assert float(found.drop("int8-tensor", "int8-token").low) > 0.3
    assert float(found.gain_left("int8-tensor", "int8-token").high) < 0.5
    assert float(found.gain_left("rtn", "gptq").low) > 0.5
    without = dependence(model, names, corpora(loud=False), SCHEME, top=0)
    assert float(without.gain_left("int8-tensor", "int8-token").low) > 0.5  # nothing planted, nothing taken away


def test_layers_with_too_few_calibrating_tokens_have_no_second_moments_to_go_by(model: PreTrainedModel) -> None:
    few = corpora()
    few = Corpora([few.calibration[0][:3]], few.held_out)  # 90 tokens
    names = ["model.layers.0.mlp.gate_proj", "model.layers.0.mlp.down_proj"]
    found = dependence(model, names, few, SCHEME, top=1)
    assert found.layers("gptq") == names[:1]  # 64 columns, and 96
    assert found.layers("awq") == names
