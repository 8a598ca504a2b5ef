"""A degree is a whole number, also as a floating tensor: S does not grow by what the polynomial
before would give."""

from __future__ import annotations

import pytest
import torch

import consistency
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.engine.engine import judge_case
from consistency.generate.materialize import prepare
from consistency.judge.tolerances import load
from consistency.operators import select
from consistency.reference import Reference

POLYNOMIALS = select(["family:polynomial"])


class OneTooMany(consistency.TorchBackend):
    def call(self, operator, args, kwargs):  # type: ignore[no-untyped-def]
        return super().call(operator, [args[0], args[1] + 1.0], kwargs)


def case_of(name: str) -> Case:
    x = TensorRecipe((4, 5), "float32", ("uniform", 0.25, 0.75), 1 << 20)
    return Case(name, "float32", (x, TensorRecipe((5,), "float32", ("integers", 2, 4), 1 << 19)))


@pytest.mark.parametrize("operator", POLYNOMIALS, ids=lambda operator: operator.name)
def test_another_degree_is_noticed_and_the_right_one_passes(operator) -> None:  # type: ignore[no-untyped-def]
    case = case_of(operator.name)
    backends = [consistency.TorchBackend("fine", "cpu"), OneTooMany("off", "cpu")]
    fine, off = judge_case(case, operator, backends, load(), ("forward",))
    assert fine.verdict.passes, fine.explanation
    assert off.verdict.value == "divergent", off.explanation


def test_perturbations_leave_the_degree_alone() -> None:
    operator = POLYNOMIALS[0]
    reference = Reference(operator, prepare(case_of(operator.name)), "forward")
    assert torch.equal(
        reference.evaluate(lambda base, position: base if position == 0 else base - 1.0)[0].tensor,
        reference.outputs[0].tensor,
    )
    (largest,) = reference.magnitudes
    assert float(largest) < 1e3
