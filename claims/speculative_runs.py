"""What the speculative claims run on the model, beside the runs of the session (fixtures/speculation.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from fixtures.unmeasurable import is_home
from lib.intervals import Estimate, as_estimate
from lib.serving.requests import GenerationRequest, Sampling
from lib.unmeasurable import Unmeasurable

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from fixtures.loading import LoadedModel
    from fixtures.speculation import Speculations
    from lib.speculative.decoding import Speculated
    from lib.speculative.drafts import CachedModel, Drafter
    from lib.speculative.sampling import Sampled
    from lib.speculative.tree import Tree

Reply = tuple[int, ...]
# Sampled replies: three tokens, two of them drafted at once, under settings that keep at most three ids.
REPLY, TREE_DRAFT, TOP_K = 3, 2, 3
NARROW = Sampling(0, 0.7, TOP_K, 0.9)
SETTINGS = {
    "temperature 1, top 3": Sampling(0, 1.0, TOP_K),
    "temperature 0.7, top 3, top_p 0.9": NARROW,
    "temperature 1.5, top 2": Sampling(0, 1.5, 2),
}
DRAWS, SEED, FEWEST_EXPECTED = 600, 0, 5  # the last is the textbook's for chi-square
TIE_TOKENS, TIE_DRAFT = 3, 4
# A text that repeats itself, for prompt lookup. Six tokens are two whole guesses of two with the target's own.
REPETITIVE = (
    "Monday: bread, milk, apples.\nTuesday: bread, milk, apples.\nWednesday: bread, milk, apples.\nThursday: bread"
)
TIMED_TOKENS, LOOKUP_DRAFT, SELF_DRAFT, WORST_DRAFT = 6, 2, 4, 1
WORST_SCHEME = "int4-tensor"
PLAIN, SELF, LOOKED_UP = "plain decoding", "the target as its own draft, four tokens", "prompt lookup, two tokens"
WORST = "INT4 with one scale per matrix as the draft, one token"


@dataclass(frozen=True)
class TwoTrees:
    """The target's chances and the draft's for every short reply to one prompt; texts: how many were scored."""

    target: Tree
    draft: Tree
    texts: int

    def law_error(self, sampling: Sampling, rule: type[Sampled]) -> float:
        """How far any reply's chance under speculation is from its chance under plain sampling; all enumerated."""
        from lib.speculative.decoding import run
        from lib.speculative.drafts import ScorerDraft
        from lib.speculative.enumeration import distance, law
        from lib.speculative.tree import plain_law

        asked, drafter = request(sampling), ScorerDraft(self.draft)
        found = law(lambda draws: run(self.target, drafter, asked, TREE_DRAFT, rule(sampling, draws)).tokens)
        return distance(found, plain_law(self.target, asked))

    def p_value(self, sampling: Sampling, rule: type[Sampled]) -> float:
        """Chi-square of DRAWS seeded replies against the chances of plain sampling; rare replies are one class."""
        from scipy.stats import chisquare

        from lib.speculative.decoding import run
        from lib.speculative.drafts import ScorerDraft
        from lib.speculative.sampling import SeededDraws
        from lib.speculative.tree import plain_law

        asked, drafter, drawn = request(sampling), ScorerDraft(self.draft), rule(sampling, SeededDraws(SEED))
        seen = Counter(run(self.target, drafter, asked, TREE_DRAFT, drawn).tokens for _ in range(DRAWS))
        chances = plain_law(self.target, asked)
        if not seen.keys() <= chances.keys():
            return 0.0  # a reply that plain sampling never gives
        classes = classes_of({reply: chance * DRAWS for reply, chance in chances.items()})
        observed = [sum(seen[reply] for reply in of) for of in classes]
        expected = [DRAWS * sum(chances[reply] for reply in of) for of in classes]
        return float(chisquare(observed, expected).pvalue)


def classes_of(expected: Mapping[Reply, float]) -> list[list[Reply]]:
    """Replies as classes for chi-square, the rarest together until FEWEST_EXPECTED of them are expected."""
    ordered = sorted(expected, key=lambda reply: expected[reply])
    rare, total = 0, 0.0
    while rare < len(ordered) and (expected[ordered[rare]] < FEWEST_EXPECTED or 0 < total < FEWEST_EXPECTED):
        total += expected[ordered[rare]]
        rare += 1
    return [*([ordered[:rare]] if rare else []), *([reply] for reply in ordered[rare:])]


def runs_or_reason(wanted: pytest.FixtureRequest) -> Speculations | str:
    """The session's runs, or why this model has none: the formulas' part of a claim needs nothing of them."""
    loaded: LoadedModel = wanted.getfixturevalue("loaded_model")
    if loaded.tokenizer is None:
        return loaded.wordless
    try:
        runs: Speculations = wanted.getfixturevalue("speculations")
    except pytest.skip.Exception as refused:
        return str(refused)
    except Unmeasurable as refused:
        if is_home(wanted.config):
            raise
        return str(refused)
    return runs


def request(sampling: Sampling | None) -> GenerationRequest:
    """A short reply to the trees' prompt."""
    from lib.speculative.tree import PROMPT

    return GenerationRequest("sampled", PROMPT, REPLY, sampling)


def two_trees(speculations: Speculations, draft: str, prompt: int) -> TwoTrees:
    """Both models on all short replies to one of the quality table's prompts."""
    from fixtures.quality_workload import OWN_TOKENS
    from lib.speculative.tree import grow

    ids = speculations.table.own_text[prompt, :-OWN_TOKENS]
    with speculations.drafting(draft) as model:
        (ours, theirs), texts = grow([speculations.target, model], ids, REPLY, TOP_K)
    return TwoTrees(ours, theirs, texts)


@dataclass(frozen=True)
class HalfPrecision:
    """A model in 16 bits as its own draft. differing: replies that are not plain decoding's, of how many.

    leads: by how many logits plain decoding's choice was ahead where they part. acceptance: accepted over judged.
    """

    differing: Estimate
    leads: list[float]
    acceptance: float


def own_draft_in_half(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, number_format: torch.dtype
) -> HalfPrecision:
    """Prompts at which a search saw rounding decide (fixtures/continuations.py); draft and target are one model."""
    from fixtures.continuations import near_ties
    from lib.serving.reference import solo
    from lib.slim_models import cast_copy
    from lib.speculative.decoding import counts, speculate
    from lib.speculative.drafts import ModelDraft

    coarse = cast_copy(model, number_format)
    prompts = near_ties(tokenizer, str(number_format).removeprefix("torch."))
    leads, rounds = [], []
    for ids in prompts:
        asked = GenerationRequest("tie", tuple(ids[0].tolist()), TIE_TOKENS)
        plain, found = solo(coarse, asked), speculate(coarse, ModelDraft(coarse, coarse), asked, TIE_DRAFT)
        at = plain.parts_at(found.tokens)
        leads += [] if at is None else [plain.gaps[at]]
        rounds += found.rounds
    return HalfPrecision(share_of(len(leads), len(prompts)), leads, counts(rounds).acceptance)


def share_of(differing: int, replies: int) -> Estimate:
    """A share with its Wilson interval."""
    from lib.proportions import wilson_interval

    return wilson_interval(differing, replies)


def differing(comparisons: Iterable[tuple[int, int]], decided: bool) -> Estimate:
    """The share of replies that differ from plain decoding's, from (differing, replies) of each draft.

    decided: no choice was within twice the largest effect of rounding, so that none can differ: then none is exactly 0.
    """
    pairs = list(comparisons)
    unlike, replies = (sum(column) for column in zip(*pairs, strict=True))
    return as_estimate(0) if decided and not unlike else share_of(unlike, replies)


@dataclass
class TimedReply:
    """A whole reply as a thing to be timed; from the second time on the prompt is cached. last: what came out."""

    target: CachedModel
    drafter: Drafter
    draft_tokens: int
    asked: GenerationRequest
    last: Speculated | None = None

    @property
    def passes(self) -> int:
        """Passes of the target that the last reply took."""
        return len(self.last.rounds) if self.last else 0

    @property
    def acceptance(self) -> float:
        """Accepted over judged in the last reply."""
        from lib.speculative.decoding import counts

        return counts(self.last.rounds if self.last else ()).acceptance

    def __call__(self) -> None:
        """Generate it anew."""
        from lib.speculative.decoding import Speculation
        from lib.speculative.sampling import Greedy

        reply = Speculation(self.target, self.drafter, self.asked, self.draft_tokens, Greedy())
        while not reply.done:
            reply.round()
        self.last = reply.result()


def timed_replies(
    target: PreTrainedModel, worst: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> dict[str, TimedReply]:
    """The same short reply by plain decoding, with drafts that cost as much as the target, and by prompt lookup."""
    from lib.speculative.drafts import CachedModel, ModelDraft, PromptLookup, twin

    drafters: dict[str, tuple[Drafter, int]] = {
        PLAIN: (PromptLookup(), 0),
        SELF: (ModelDraft(twin(target), target), SELF_DRAFT),
        WORST: (ModelDraft(worst, target), WORST_DRAFT),
        LOOKED_UP: (PromptLookup(), LOOKUP_DRAFT),
    }
    asked = GenerationRequest("timed", tuple(tokenizer(REPETITIVE)["input_ids"]), TIMED_TOKENS)
    return {name: TimedReply(CachedModel(target), *how, asked) for name, how in drafters.items()}
