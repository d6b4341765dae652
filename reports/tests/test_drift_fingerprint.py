"""What may be compared with what: fingerprints, their differences, and how close two figures are, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from reports.drift.fingerprint import (
    RESIDUE,
    TOLERANCE,
    Fingerprint,
    changes,
    close,
    difference,
    fingerprint,
    is_clocked,
    model_print,
    same_bits,
    speed,
)

MODEL = {"digest": "0123456789abcdef", "dtype": "torch.float32", "device": "cuda:0"}
BASE = Fingerprint(("0123456789abcdef", "float32", "cuda"), "xeon", 2, "2.13.0", {"tokens": "48"})


def test_what_varies_by_nature_is_no_part_of_it() -> None:
    by_nature = ["rounds", "round", "quiet_rounds", "quiet_rounds_long", "passes_per_round", "seconds", "seconds_all",
                 "read_gb_per_s"]  # fmt: skip
    protocol = dict.fromkeys(by_nature, 1) | {"tokens": 48, "background": 2, "per_s": 3}
    found = fingerprint({"threads": 2, "model": MODEL, "protocol": protocol}, "2.13.0", "xeon")
    assert found == replace(BASE, protocol={"tokens": "48", "background": "2", "per_s": "3"})


def test_a_record_without_a_model_or_a_protocol_has_one_too() -> None:
    assert fingerprint({}, None, "xeon") == Fingerprint(None, "xeon", None, "", {})
    assert model_print({}) == ("", "", "")


@pytest.mark.parametrize(
    ("record", "clocked"),
    [({"warrant": "timed"}, True), ({"warrant": "exact", "needs": ["model", "timing"]}, True), ({}, False),
     ({"protocol": {"quiet_rounds_long": 3}}, True), ({"warrant": "exact", "protocol": {"rounds": 3}}, False)],
)  # fmt: skip
def test_a_clock_is_known_by_warrant_need_or_rounds(record: dict[str, object], clocked: bool) -> None:
    assert is_clocked(record) is clocked


@pytest.mark.parametrize(
    ("other", "plain", "timed"),
    [
        (BASE, "", ""),
        (replace(BASE, model=None), "another model: 0123456789ab float32 cuda → none", "another model"),
        (replace(BASE, machine="epyc"), "", "another class of machine: xeon → epyc"),
        (replace(BASE, machine="unknown"), "", "another class of machine: xeon → unknown"),
        (replace(BASE, threads=4), "", "other threads: 2 → 4"),
        (replace(BASE, torch="2.14.0"), "", ""),
        (replace(BASE, protocol={"tokens": "64"}), "another protocol: tokens 48 → 64", "another protocol"),
        (replace(BASE, protocol={}), "another protocol: tokens 48 → absent", "another protocol"),
    ],
)
def test_differences_in_words(other: Fingerprint, plain: str, timed: str) -> None:
    for found, words in ((difference(BASE, other, False), plain), (difference(BASE, other, True), timed)):
        assert words in found and bool(words) is bool(found)


def test_two_unknown_machines_are_not_the_same() -> None:
    nowhere = replace(BASE, machine="unknown")
    assert "machine" in difference(nowhere, nowhere, True) and not same_bits(nowhere, nowhere)
    assert same_bits(BASE, BASE)
    assert not same_bits(BASE, replace(BASE, torch="2.14.0")) and not same_bits(BASE, replace(BASE, machine="epyc"))


def test_of_many_differences_three_are_named() -> None:
    found = difference(BASE, replace(BASE, protocol=dict.fromkeys("abcde", "1")), False)
    assert found == "another protocol: tokens 48 → absent, a absent → 1, b absent → 1"


@pytest.mark.parametrize("size", [1.0, -1000.0])
def test_close_is_by_share_and_a_residue(size: float) -> None:
    reach = TOLERANCE * abs(size) + RESIDUE
    assert close(size, size - math.copysign(0.999 * reach, size))
    assert not close(size, size - math.copysign(1.001 * reach, size))
    assert close(size - math.copysign(0.999 * reach, size), size)


def test_vanishing_is_vanishing_whichever_residue_is_left() -> None:
    assert close(0.0, RESIDUE) and close(RESIDUE / 2, -RESIDUE / 2)
    assert not close(0.0, 2 * RESIDUE)


def test_changes_name_versions_source_and_commit() -> None:
    was = {"torch": "2.13.0", "numpy": "2.4", "python": "3.11", "source": "a", "commit": "c1"}
    now = {"torch": "2.14.0", "numpy": "2.4", "scipy": "1.17", "source": "a", "commit": "c2"}
    assert changes(was, now) == "torch 2.13.0 → 2.14.0, source unchanged, commit c1 → c2"
    assert changes({"source": "a"}, {"source": "b"}) == "source changed"
    assert changes({"source": "a"}, {}) == changes({}, {"torch": "2.14.0"}) == ""


def test_speed_takes_rates_that_are_some() -> None:
    protocol = {"read_gb_per_s": 29.0, "fp32_gflop_per_s": 0.5, "int8_gop_per_s": 7.0}
    assert speed({"protocol": protocol}) == {"read_gb_per_s": 29.0, "fp32_gflop_per_s": 0.5}
    assert speed({"protocol": {"read_gb_per_s": 0.0, "fp32_gflop_per_s": "fast"}}) == speed({}) == {}
