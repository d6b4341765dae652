"""The tree of a short sampled reply against the model itself, and the law on it against the whole vocabulary's."""

from __future__ import annotations

import pytest
import torch

from lib.decoding import forward
from lib.serving.requests import GenerationRequest, Sampling
from lib.speculative.drafts import CachedModel, ScorerDraft
from lib.speculative.enumeration import distance
from lib.speculative.tree import PROMPT, grow, plain_law
from lib.speculative.wrong_rules import NoResidual
from lib.tests.tiny_speculative import EXACT, WRONG, speculative_law, three_ids
from lib.tests.tiny_speculative import plain_law as law_by_transformers

TEXT = torch.tensor([0, 2, 1])
TOP_K, NEW = 2, 3
# The models are in fp64 but for their rotary angles, which transformers multiplies in fp32: an angle of at most 5 is
# off by 5 · 2^-24 = 3e-7 in passes of another shape, and these logits change by less than 10 for a turn.
ANGLES = 1e-5


def test_tree_against_passes_over_whole_texts() -> None:
    (tree, _), texts = grow([three_ids(1), three_ids(2)], TEXT, NEW, TOP_K)
    assert texts == len(tree.rows)
    for after, row in tree.rows.items():
        whole = forward(three_ids(1), torch.cat([TEXT, torch.tensor(after, dtype=torch.int64)])[None]).logits[0, -1]
        assert (row - whole).abs().max() <= ANGLES
        assert torch.equal(tree.logits([*PROMPT, *after], len(after) + 1)[-1], row)


def test_law_on_the_tree_against_the_law_of_the_model() -> None:
    """Three ids, all of them in the tree, so that new numbers are the old ones."""
    trees, _ = grow([three_ids(1), three_ids(2)], TEXT, NEW, TOP_K)
    on_tree, on_model = (GenerationRequest(0, prompt, NEW, Sampling(0, 0.8, TOP_K)) for prompt in (PROMPT, (0, 2, 1)))
    expected = law_by_transformers(CachedModel(three_ids(1)), on_model)
    plain = plain_law(trees[0], on_tree)
    assert distance(plain, expected) <= ANGLES
    assert distance(speculative_law(trees[0], ScorerDraft(trees[1]), on_tree, 2), plain) <= EXACT
    assert distance(speculative_law(trees[0], ScorerDraft(trees[1]), on_tree, 2, NoResidual), expected) > WRONG


def test_a_text_outside_the_tree_is_not_made_up() -> None:
    (tree,), _ = grow([three_ids(1)], TEXT, 1, 1)
    with pytest.raises(KeyError):
        tree.logits([*PROMPT, 0], 1)
