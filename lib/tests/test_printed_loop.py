"""The printed loop, held against the adapter, and against models that no longer take its argument."""

from types import SimpleNamespace
from typing import Any

import torch
from transformers import Qwen2Config
from transformers.models.qwen2 import Qwen2ForCausalLM

from lib.decoding import greedy_cached, random_tokens
from lib.printed_loop import printed_loop_peak, run_printed_loop


def tiny() -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=61, num_hidden_layers=2, **sizes)).eval()


class RenamedOnly:
    """A release that has dropped the old names."""

    def __call__(self, ids: torch.Tensor, use_cache: bool, cache: object = None) -> SimpleNamespace:
        return SimpleNamespace(logits=torch.zeros(1, ids.shape[1], 5), cache=object())


def test_loop_against_the_adapter() -> None:
    model, ids = tiny(), random_tokens(9, 61)
    run = run_printed_loop(model, ids, 6)
    assert run.ran
    assert torch.equal(run.tokens, greedy_cached(model, ids, 6).tokens)
    assert run.fed == [9, 1, 1, 1, 1, 1]


def test_deprecation_is_read_off_the_warning() -> None:
    run = run_printed_loop(tiny(), random_tokens(9, 61), 3)
    assert (run.warned > 0) == (run.removal != "")
    assert all(part.isdigit() for part in run.removal.split(".") if run.removal)


def test_a_release_without_the_old_names_is_a_failure_and_no_crash() -> None:
    run = run_printed_loop(RenamedOnly(), random_tokens(9, 5), 3)
    assert not run.ran
    assert run.tokens.numel() == 0
    assert "past_key_values" in run.failure


def test_one_token_warns_no_less_than_many() -> None:
    run = run_printed_loop(tiny(), random_tokens(9, 61), 1)
    assert run.ran and run.fed == [9]
    assert (run.warned > 0) == (run.removal != "")


def test_the_loop_as_printed_keeps_its_graph() -> None:
    model, ids = tiny(), random_tokens(9, 61)
    with_graph, without = (printed_loop_peak(model, ids, 4, gradients) for gradients in (True, False))
    assert with_graph.live_bytes > 2 * without.live_bytes
