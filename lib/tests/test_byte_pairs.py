"""The byte-pair model against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lib.byte_pairs import BYTES, PRIOR, byte_losses, fit_byte_pairs


def test_byte_pairs_against_counting_by_hand() -> None:
    table = fit_byte_pairs(["abac"])
    after_a = 2 + BYTES * PRIOR
    assert table[ord("a"), ord("b")] == pytest.approx(np.log((1 + PRIOR) / after_a))
    assert table[ord("b"), ord("a")] == pytest.approx(np.log((1 + PRIOR) / (1 + BYTES * PRIOR)))
    assert np.allclose(np.exp(table).sum(axis=1), 1)


def test_losses_are_of_every_byte_but_the_first() -> None:
    table = fit_byte_pairs(["é é"])
    assert byte_losses(table, "é").tolist() == [-table[0xC3, 0xA9]]
    assert byte_losses(table, "a").size == 0


def test_pairs_do_not_cross_from_one_text_to_the_next() -> None:
    assert fit_byte_pairs(["ab", "cd"])[ord("b"), ord("c")] == pytest.approx(np.log(1 / BYTES))


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(ValueError, match="no two bytes"):
        fit_byte_pairs(["", "x"])
