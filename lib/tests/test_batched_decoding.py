"""Batched greedy replies, held against solo replies and transformers' own generate, and against the usual mistakes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from transformers import GenerationConfig, GPT2Config, LlamaConfig, PreTrainedModel, Qwen2Config
from transformers.models.gpt2 import GPT2LMHeadModel
from transformers.models.llama import LlamaForCausalLM
from transformers.models.qwen2 import Qwen2ForCausalLM

from lib.batched_decoding import BrokenLogits, Reply, common_prefix, greedy_replies, penalised, prefilled
from lib.decoding import prefill, random_tokens

VOCAB, LIMIT = 97, 12
NEVER = VOCAB  # an id that cannot occur
LENGTHS = (3, 9, 5, 1, 9, 7, 4, 12)
PENALTIES = (1.0, 1.1, 1.5)
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,  # wide, so that a choice depends on what came before it
}
# Logits of these models are sums over 48 terms of size up to about 5 in fp32: 48 · 2^-24 · 5, times 3 layers.
LOGIT_TOLERANCE = 3 * 5 * 48 * 2.0**-24


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(params=["qwen2", "llama", "gpt2"])
def tiny(request: pytest.FixtureRequest) -> PreTrainedModel:
    torch.manual_seed(7)
    if request.param == "qwen2":
        return Qwen2ForCausalLM(Qwen2Config(**SIZES)).eval()
    if request.param == "llama":
        return LlamaForCausalLM(LlamaConfig(**SIZES, head_dim=16)).eval()
    config = GPT2Config(vocab_size=VOCAB, n_embd=48, n_layer=3, n_head=6, n_positions=64, initializer_range=0.3)
    return GPT2LMHeadModel(config).eval()


def prompts_with(shared: int = 0, lengths: Sequence[int] = LENGTHS) -> list[Tensor]:
    prefix = random_tokens(shared, VOCAB, seed=99)[0]
    return [torch.cat([prefix, random_tokens(n, VOCAB, seed=n + 10 * i)[0]]) for i, n in enumerate(lengths)]


def theirs(
    model: PreTrainedModel, prompts: Sequence[Tensor], penalty: float, end: int = NEVER
) -> list[tuple[int, ...]]:
    """Replies of transformers' generate to prompts in one left-padded batch, each up to and without the ending id."""
    config = GenerationConfig(
        max_new_tokens=LIMIT, do_sample=False, repetition_penalty=penalty, eos_token_id=end, pad_token_id=0
    )
    width = max(len(ids) for ids in prompts)
    padded = torch.stack([torch.cat([ids.new_zeros(width - len(ids)), ids]) for ids in prompts])
    mask = (torch.arange(width) >= torch.tensor([[width - len(ids)] for ids in prompts])).long()
    out = model.generate(padded, attention_mask=mask, generation_config=config)[:, width:].tolist()
    return [tuple(row[: row.index(end)] if end in row else row) for row in out]


def ours(model: PreTrainedModel, prompts: Sequence[Tensor], **options: object) -> list[list[Reply]]:
    settings = {"penalties": PENALTIES, "max_new_tokens": LIMIT, "end_ids": (NEVER,)} | options
    return greedy_replies(model, prompts, **settings)  # type: ignore[arg-type]


def tokens_of(replies: Sequence[Sequence[Reply]]) -> list[list[tuple[int, ...]]]:
    return [[reply.tokens for reply in row] for row in replies]


@pytest.mark.parametrize("shared", [0, 6])
def test_batch_against_generate_one_prompt_at_a_time(tiny: PreTrainedModel, shared: int) -> None:
    prompts = prompts_with(shared)
    assert (common_prefix(prompts) == shared) and len({len(p) for p in prompts}) > 1
    expected = [[theirs(tiny, [ids], penalty)[0] for ids in prompts] for penalty in PENALTIES]
    assert tokens_of(ours(tiny, prompts)) == expected
    assert expected[0] != expected[1] != expected[2], "the penalties must matter here, or the test proves nothing"


def test_batch_against_solo_replies(tiny: PreTrainedModel) -> None:
    prompts, end = prompts_with(), an_end(tiny)
    solo = [ours(tiny, [ids], end_ids=(end,)) for ids in prompts]
    for size in (1, 3, 64):
        batched = ours(tiny, prompts, end_ids=(end,), batch=size)
        assert batched == [[alone[k][0] for alone in solo] for k in range(len(PENALTIES))]


def an_end(model: PreTrainedModel) -> int:
    """An id that ends some replies early and others not at all."""
    plain = tokens_of(ours(model, prompts_with(), penalties=(1.0,)))[0]
    return next(t for t in range(VOCAB) if 1 <= sum(t in reply[1:] for reply in plain) < len(plain))


def test_ended_rows_against_generate_on_a_padded_batch(tiny: PreTrainedModel) -> None:
    prompts, end = prompts_with(), an_end(tiny)
    replies = ours(tiny, prompts, end_ids={end, NEVER})
    assert tokens_of(replies) == [theirs(tiny, prompts, penalty, end) for penalty in PENALTIES]
    assert {reply.ended for reply in replies[0]} == {True, False}
    assert all(reply.ended is (len(reply.tokens) < LIMIT) for row in replies for reply in row)
    assert all(end not in reply.tokens for row in replies for reply in row)


def test_order_of_prompts_and_of_penalties_does_not_matter(tiny: PreTrainedModel) -> None:
    prompts, replies = prompts_with(6), ours(tiny, prompts_with(6))
    backwards = ours(tiny, prompts[::-1], penalties=PENALTIES[::-1], batch=3)
    assert [row[::-1] for row in backwards[::-1]] == replies


def test_shared_prefix_against_none_in_logits(tiny: PreTrainedModel) -> None:
    prompts = prompts_with(6)
    with_prefix, without = prefilled(tiny, prompts), prefilled(tiny, prompts, share_prefix=False)
    solo = torch.cat([prefill(tiny, ids[None]).logits[:, -1] for ids in prompts])
    assert (with_prefix.logits - solo).abs().max() <= LOGIT_TOLERANCE
    assert (without.logits - solo).abs().max() <= LOGIT_TOLERANCE


def test_logits_reject_a_missing_mask_and_right_padding(tiny: PreTrainedModel) -> None:
    rows = prefilled(tiny, prompts_with(), share_prefix=False)
    positions = (rows.mask.cumsum(1) - 1).clamp(min=0)
    unmasked = prefill(tiny, rows.history, position_ids=positions).logits[:, -1]
    assert (unmasked - rows.logits).abs().max() > LOGIT_TOLERANCE
    padded_right = torch.stack([torch.cat([ids, ids[-1:].expand(12 - len(ids))]) for ids in prompts_with()])
    mask = (torch.arange(12) < torch.tensor(LENGTHS)[:, None]).long()
    right = prefill(tiny, padded_right, attention_mask=mask).logits[:, -1]
    assert (right - rows.logits).abs().max() > LOGIT_TOLERANCE


def test_absolute_positions_reject_leaving_them_to_the_model() -> None:
    torch.manual_seed(7)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_embd=48, n_layer=3, n_head=6, n_positions=64)).eval()
    rows = prefilled(model, prompts_with(), share_prefix=False)
    unnumbered = prefill(model, rows.history, attention_mask=rows.mask).logits[:, -1]
    assert (unnumbered - rows.logits).abs().max() > LOGIT_TOLERANCE


def solo_with_history(model: PreTrainedModel, ids: Tensor, counted: Tensor, penalty: float) -> tuple[int, ...]:
    """A plain loop whose penalty counts the given ids, then what it writes itself: ids for ours, else a mistake."""
    written = ids.new_empty(0)
    for _ in range(LIMIT):
        logits = prefill(model, torch.cat([ids, written])[None]).logits[:, -1]
        history = torch.cat([counted, written])[None]
        scores = penalised(logits, history, torch.tensor([[penalty]])) if history.numel() else logits
        written = torch.cat([written, scores.argmax(-1)])
    return tuple(written.tolist())


def test_penalty_rejects_counting_only_the_reply(tiny: PreTrainedModel) -> None:
    prompts = prompts_with()
    replies = tokens_of(ours(tiny, prompts, penalties=(1.5,)))[0]
    assert [solo_with_history(tiny, ids, ids, 1.5) for ids in prompts] == replies
    assert [solo_with_history(tiny, ids, ids[:0], 1.5) for ids in prompts] != replies


def test_penalty_rejects_counting_the_padding(tiny: PreTrainedModel) -> None:
    prompts = prompts_with()
    replies = tokens_of(ours(tiny, prompts, penalties=(1.5,)))[0]
    pad = replies[0][0]  # an id that the unpadded prompt's reply begins with
    with_pad = [torch.cat([ids, torch.tensor([pad])]) for ids in prompts]
    wrong = [solo_with_history(tiny, ids, seen, 1.5) for ids, seen in zip(prompts, with_pad, strict=True)]
    assert wrong != replies


def test_penalty_of_one_changes_no_bit_and_others_follow_the_definition() -> None:
    logits = torch.randn(2, 50, generator=torch.Generator().manual_seed(1))
    history = torch.tensor([[3, 7, 3], [9, 9, 9]])
    same = penalised(logits, history, torch.ones(2, 1))
    assert torch.equal(same.view(torch.int32), logits.view(torch.int32))
    expected = logits.clone()
    for row, ids, penalty in ((0, (3, 7), 1.1), (1, (9,), 2.0)):  # once each, however often an id was seen
        for i in ids:
            expected[row, i] = logits[row, i] * penalty if logits[row, i] < 0 else logits[row, i] / penalty
    assert torch.equal(penalised(logits, history, torch.tensor([[1.1], [2.0]])), expected)


def test_penalty_changed_proves_which_penalty_was_active(tiny: PreTrainedModel) -> None:
    replies = ours(tiny, prompts_with(), penalties=(1.0, 1.5))
    assert all(reply.penalty_changed == 0 for reply in replies[0])
    assert sum(reply.penalty_changed for reply in replies[1]) > 0
    parted = [a.tokens != b.tokens for a, b in zip(*replies, strict=True)]
    assert parted == [reply.penalty_changed > 0 for reply in replies[1]]


def test_no_tokens_asked_for_runs_no_model() -> None:
    empty = Reply((), False, 0)
    assert greedy_replies(
        None, prompts_with(), penalties=(1.0, 1.1), max_new_tokens=0, end_ids=()  # type: ignore[arg-type]
    ) == [[empty] * len(LENGTHS)] * 2  # fmt: skip
    assert greedy_replies(None, [], penalties=(1.0,), max_new_tokens=3, end_ids=()) == [[]]  # type: ignore[arg-type]


def test_common_prefix_leaves_every_prompt_a_token() -> None:
    same = torch.arange(40)
    assert common_prefix([same, same]) == 39
    assert common_prefix([same, same[:35]]) == 34
    assert common_prefix([same, same[:10]]) == 0, "nine positions once are not worth a pass"
    assert common_prefix([same]) == 0
    assert common_prefix([same, same[:1]]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompts": [torch.tensor([1]), torch.empty(0, dtype=torch.int64)]}, "prompt 1"),
        ({"prompts": [torch.ones(1, 2, dtype=torch.int64)]}, "prompt 0"),
        ({"penalties": (0.0,)}, "positive"),
        ({"penalties": (float("nan"),)}, "positive"),
        ({"max_new_tokens": -1}, "-1 tokens"),
        ({"batch": 0}, "batches of 0"),
    ],
)
def test_bad_input_is_refused(options: dict[str, object], message: str) -> None:
    settings = {"prompts": prompts_with(), "penalties": (1.0,), "max_new_tokens": 2, "end_ids": ()} | options
    with pytest.raises(ValueError, match=message):
        greedy_replies(None, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_broken_logits_are_refused(tiny: PreTrainedModel, poison: float) -> None:
    with torch.no_grad():
        tiny.get_output_embeddings().weight[5] = poison
    with pytest.raises(BrokenLogits, match="NaN"):
        ours(tiny, prompts_with())


def test_a_common_beginning_is_computed_once_and_only_if_asked_for(tiny: PreTrainedModel) -> None:
    fed: list[tuple[int, ...]] = []
    hook = tiny.get_input_embeddings().register_forward_hook(lambda _module, args, _out: fed.append(args[0].shape))
    prompts = prompts_with(shared=40, lengths=(3, 5))
    for share_prefix, shapes in ((True, [(1, 40), (2, 5)]), (False, [(2, 45)])):
        fed.clear()
        prefilled(tiny, prompts, share_prefix)
        assert [tuple(shape) for shape in fed if len(shape) == 2 and shape[1] > 1][: len(shapes)] == shapes
    hook.remove()
