"""Prompt lookup against transformers' own, a cached model against passes without a cache, and refused drafts."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

from lib.decoding import ALL_POSITIONS, forward
from lib.quantization.schemes import SCHEMES
from lib.quantization.swap import WeightSwap
from lib.serving.reference import solo
from lib.speculative import drafts
from lib.speculative.decoding import speculate
from lib.speculative.drafts import (
    CachedModel,
    DraftRefused,
    ModelDraft,
    PromptLookup,
    check_models,
    check_tokenizers,
    twin,
)
from lib.speculative.sampling import Greedy
from lib.tests.tiny_serving import ROUNDING, tiny
from lib.tests.tiny_speculative import near, requests, three_ids
from lib.weight_stats import projection_weights

RULE = Greedy()
UNKNOWN = "[UNK]"
WORDS = {UNKNOWN: 0, "Harga": 1, "def": 2}


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("longest", [1, 2, 3])
def test_prompt_lookup_against_transformers(seed: int, longest: int) -> None:
    """Few different ids, so that runs of every length repeat; and some texts in which nothing does."""
    text = torch.randint(0, 3 + seed, (1, 2 + seed), generator=torch.Generator().manual_seed(seed))
    theirs = PromptLookupCandidateGenerator(
        num_output_tokens=4, max_matching_ngram_size=longest, max_length=text.shape[1] + 9
    )
    expected = theirs.get_candidates(text)[0][0, text.shape[1] :].tolist()
    assert list(PromptLookup(longest).propose(text[0].tolist(), 4, RULE).tokens) == expected


def test_prompt_lookup_takes_the_longest_run_then_the_earliest_place() -> None:
    text = (7, 2, 9, 1, 2, 3, 4, 1, 2, 8, 5, 1, 2)
    assert PromptLookup(2).propose(text, 3, RULE).tokens == (3, 4, 1)
    assert PromptLookup(1).propose(text, 3, RULE).tokens == (9, 1, 2)
    assert PromptLookup(3, shortest=3).propose(text, 3, RULE).tokens == ()
    assert PromptLookup(2).propose((1, 2, 1, 2), 9, RULE).tokens == (1, 2), "up to the text's end"
    assert PromptLookup().propose((1,), 3, RULE).tokens == ()
    assert PromptLookup().propose((), 3, RULE).tokens == ()


@pytest.mark.parametrize(("longest", "shortest"), [(0, 1), (2, 3), (2, 0)])
def test_prompt_lookup_refuses_runs_of_no_length(longest: int, shortest: int) -> None:
    with pytest.raises(ValueError, match="runs of"):
        PromptLookup(longest, shortest)


TEXTS = [(5, 6, 7, 8), (5, 6, 7, 8, 9, 10), (5, 6, 7, 1), (5, 6), (5, 6, 7, 1, 2, 3), (9, 9, 9), (9, 9, 9)]


@pytest.mark.parametrize("family", ["qwen2", "gpt2"])
def test_cached_model_against_passes_without_a_cache(family: str) -> None:
    """Texts that grow, lose their end, repeat and share nothing."""
    model = CachedModel(tiny(family))
    for text in TEXTS:
        for keep in (1, min(2, len(text))):
            plain = forward(tiny(family), torch.tensor([text]), logits_to_keep=ALL_POSITIONS).logits[0, -keep:]
            assert (model.logits(text, keep) - plain).abs().max() <= ROUNDING
            assert model.cached == len(text)


def test_cached_model_computes_only_what_is_new() -> None:
    model = CachedModel(tiny("qwen2"))
    new = []
    for text, keep in [(TEXTS[0], 1), (TEXTS[1], 2), (TEXTS[2], 1), (TEXTS[2], 1), (TEXTS[2], 3)]:
        before = model.positions
        model.logits(text, keep)
        new.append(model.positions - before)
    assert new == [4, 2, 1, 1, 3]
    assert model.passes == 5


def test_cached_model_forgets_a_pass_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    model, plain = CachedModel(tiny("qwen2")), CachedModel(tiny("qwen2")).logits(TEXTS[1], 1)
    model.logits(TEXTS[0], 1)
    with monkeypatch.context() as patch:
        patch.setattr(drafts, "decode_step", lambda *_: (_ for _ in ()).throw(RuntimeError("no memory")))
        with pytest.raises(RuntimeError, match="no memory"):
            model.logits(TEXTS[1], 1)
    assert model.cached == 0
    assert (model.logits(TEXTS[1], 1) - plain).abs().max() <= ROUNDING


@pytest.mark.parametrize("keep", [0, 5])
def test_cached_model_refuses_logits_that_are_not_there(keep: int) -> None:
    with pytest.raises(ValueError, match=f"logits of {keep} positions of a text of 4"):
        CachedModel(tiny("qwen2")).logits(TEXTS[0], keep)


def test_a_draft_runs_inside_what_it_is_wrapped_in() -> None:
    """A draft that borrows the target's modules changes them only while it guesses."""
    inside: list[bool] = []

    @contextmanager
    def borrowed() -> Iterator[None]:
        inside.append(True)
        yield
        inside[-1] = False

    draft = ModelDraft(near("qwen2", 0.02), tiny("qwen2"), borrowed)
    assert len(draft.propose(TEXTS[0], 3, RULE).tokens) == 3
    assert inside == [False]


def test_a_vocabulary_of_another_size_is_refused() -> None:
    with pytest.raises(DraftRefused, match="the target scores 97 ids, the draft 3"):
        ModelDraft(three_ids(1), tiny("qwen2"))


def test_a_draft_on_another_device_is_refused() -> None:
    with torch.device("meta"):
        elsewhere = type(tiny("qwen2"))(tiny("qwen2").config)
    with pytest.raises(DraftRefused, match="the target is on cpu, the draft on meta"):
        check_models(tiny("qwen2"), elsewhere)
    check_models(tiny("qwen2"), tiny("llama"))


def words(vocab: dict[str, int], *, split: bool = True) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel(vocab, unk_token=UNKNOWN))
    if split:
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=UNKNOWN)


def test_different_tokenizers_are_refused() -> None:
    check_tokenizers(words(WORDS), words(dict(WORDS)))
    with pytest.raises(DraftRefused, match="id 1 is 'Harga' to the target, 'def' to the draft"):
        check_tokenizers(words(WORDS), words({UNKNOWN: 0, "def": 1, "Harga": 2}))
    with pytest.raises(DraftRefused, match="id 3 is None to the target, 'more' to the draft"):
        check_tokenizers(words(WORDS), words(WORDS | {"more": 3}))


def test_tokenizers_of_one_vocabulary_that_cut_differently_are_refused() -> None:
    with pytest.raises(DraftRefused, match="of one vocabulary"):
        check_tokenizers(words(WORDS), words(WORDS, split=False))


@pytest.mark.parametrize("slug", ["int8-row", "int4-g32", "nf4-b64"])
def test_a_quantized_self_drafts_beside_the_target_it_shares_numbers_with(slug: str) -> None:
    target = tiny("qwen2")
    before = {name: tensor.clone() for name, tensor in target.state_dict().items()}
    draft, request = twin(target), requests(3)[2]
    with WeightSwap(draft).quantized(SCHEMES[slug]):
        reply = speculate(target, ModelDraft(draft, target), request, 3)
        swapped = sum(
            a.data_ptr() != b.data_ptr() for a, b in zip(target.parameters(), draft.parameters(), strict=True)
        )
        assert swapped == len(projection_weights(target)), "everything else is the target's own storage"
    assert solo(target, request).equals(reply.tokens, ROUNDING)
    assert all(torch.equal(tensor, before[name]) for name, tensor in target.state_dict().items())


def test_a_twin_keeps_tied_weights_tied_and_takes_no_memory() -> None:
    for family in ("qwen2", "gpt2"):
        original, other = tiny(family), twin(tiny(family))
        assert other is not original
        where, there = ([p.data_ptr() for p in model.parameters()] for model in (original, other))
        assert where == there, "the same number of parameters (a tied one is one), each where the original has it"
        assert not {id(p) for p in original.parameters()} & {id(p) for p in other.parameters()}


def test_swapping_in_a_second_name_for_the_same_parameters_reaches_the_target() -> None:
    """The wrong variant: a copy of the module tree that shares the parameter objects themselves."""
    target = twin(tiny("qwen2"))
    shared = copy.deepcopy(target, {id(p): p for p in target.parameters()})
    with WeightSwap(shared).quantized(SCHEMES["int4-g32"]):
        assert any(not torch.equal(a, b) for a, b in zip(target.parameters(), tiny("qwen2").parameters(), strict=True))
