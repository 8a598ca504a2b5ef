"""Proofs of a call with thousands of outputs end in time."""

from __future__ import annotations

import pytest

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate.materialize import prepare
from consistency.reference import Reference, high_precision

PARTS = 1000
NUMBERS = TensorRecipe((3 * PARTS,), "float64", ("uniform", -1.0, 1.0), 4001)


def refined(length: int) -> Reference:
    """The reference of the parts of this length, with its proofs."""
    case = Case("unsafe_split", "float64", (NUMBERS, length))
    reference = Reference(operators.get("unsafe_split"), prepare(case), "forward")
    high_precision.refine(reference, high_precision.EACH)
    return reference


def test_as_many_are_proved_as_there_is_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run spent 300 seconds on 3,000 parts, and its process was ended."""
    monkeypatch.setattr(high_precision, "ALL_OUTPUTS", 0.05)
    reference = refined(3)
    proved = sum(reference.proofs.count(index) > 0 for index in range(PARTS))
    assert 0 < proved < PARTS
    assert reference.verified.startswith("certified at")


def test_few_are_all_proved() -> None:
    reference = refined(3 * PARTS // 2)
    assert all(reference.proofs.count(index) for index in range(2))
