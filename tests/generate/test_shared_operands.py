"""Operands in the memory of another one: drawn, built, differentiated, judged and written down."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
import torch

from consistency import Backend, operators
from consistency.backends import resolve
from consistency.core.detail import HarnessFailed
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe, owner
from consistency.core.verdict import VerdictKind
from consistency.diagnose.evaluation import evaluate
from consistency.errors import RecipeError
from consistency.generate import search
from consistency.generate.materialize import prepare
from consistency.generate.shared_operands import (
    ATTENTION,
    LISTS,
    PLACES,
    PRODUCTS,
    with_shared_operand,
)
from consistency.judge import tolerances
from consistency.operators.declare import Call, Drawing, Operator
from consistency.reference import Reference
from consistency.report.repro_script import script

FACTOR = TensorRecipe((4, 6), "float32", ("uniform", -1.0, 1.0), 600)
TRANSPOSED = FACTOR.again(("transpose", 0, 1))
TRANSPOSED_FIRST = replace(FACTOR, view=(("transpose", 0, 1),))
SQUARE = Case("mm", "float32", (FACTOR, TRANSPOSED), {}, 900)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", sorted({*PLACES, *PRODUCTS, *LISTS, ATTENTION}))
def test_a_share_of_the_calls_of_every_such_operator(name: str) -> None:
    """They are drawn, and the healthy CPU passes."""
    few = (ATTENTION, "nn.functional.linear", "inner")  # without mask or bias, of two dimensions
    many = 200 if name in few else 64
    drawn, rules = search.batch(operators.get(name), "float32", many), tolerances.load()
    shared = [case for case in drawn if prepare(case).build().shared]
    assert 1 <= len(shared) <= 24
    for case in shared[:4]:
        for result in evaluate(case, [resolve("cpu")], rules):
            assert not result.verdict.fails, (case.line, result.explanation)
            assert not isinstance(result.detail, HarnessFailed), (case.line, result.explanation)


class Always:
    """Draws the last of every range, so that an operand is shared, and its transpose."""

    def integer(self, low: int, high: int) -> int:
        return high

    def flag(self) -> bool:
        return True


def shared(name: str, *args: Any) -> Call:
    return with_shared_operand(cast(Drawing, Always()), operators.get(name), Call(args, {}))


def test_what_cannot_be_shared_stays_as_it_is() -> None:
    """Rows in several dimensions beside a matrix, and lists of two dtypes."""
    rows = TensorRecipe((2, 5, 6), "float32", ("uniform", -1.0, 1.0), 900)
    assert shared("nn.functional.linear", rows, FACTOR).args == (rows, FACTOR)
    whole = TensorRecipe((4, 6), "int32", ("integers", -9, 9), 600)
    assert shared("cat", [whole, FACTOR]).args == ([whole, FACTOR],)
    assert shared("cat", [FACTOR, FACTOR]).args == ([FACTOR, FACTOR.again()],)
    left, right = shared("nn.functional.linear", FACTOR, FACTOR).args
    assert (left, right) == (TRANSPOSED_FIRST, TRANSPOSED_FIRST.again())


def test_its_memory_is_that_of_the_other() -> None:
    arguments = prepare(SQUARE).build(gradients=True)
    x, y = arguments.tensors
    assert y.data_ptr() == x.data_ptr()
    assert torch.equal(x.T, y)
    assert arguments.leaves == [0]
    assert arguments.changed(prepare(SQUARE)) == ()
    with torch.no_grad():
        y[0, 0] = 5.0
    assert arguments.changed(prepare(SQUARE)) == (0, 1)


@pytest.mark.parametrize("change", [{"stop": 601}, {"base": (6, 4)}, {"dtype": "float64"}])
def test_other_numbers_have_memory_of_their_own(change: Mapping[str, Any]) -> None:
    other = replace(TRANSPOSED, **change)
    arguments = prepare(replace(SQUARE, args=(FACTOR, other))).build(gradients=True)
    x, y = arguments.tensors
    assert y.data_ptr() != x.data_ptr()
    assert not y.requires_grad


def test_an_earlier_view_has_to_lead_to_it() -> None:
    first = replace(FACTOR, view=(("transpose", 0, 1),))
    assert owner([first, TRANSPOSED], 1) == 0
    assert owner([first, FACTOR.again()], 1) is None


def test_it_is_part_of_the_case() -> None:
    assert Case.from_line(SQUARE.line) == SQUARE
    assert SQUARE.digest != replace(SQUARE, args=(FACTOR, replace(TRANSPOSED, shared=False))).digest
    with pytest.raises(RecipeError, match="expected true or false, not 1"):
        Case.from_line(SQUARE.line.replace('"shared":true', '"shared":1'))
    far = replace(SQUARE, args=(FACTOR, FACTOR.again(("transpose", 0, 5))))
    with pytest.raises(RecipeError, match="chain of views does not fit"):
        prepare(far).build()


class HalfOfTheGradient(Backend):
    """Forgets that a product with the own transposed view moves twice."""

    name = "half"

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        x, y = args
        is_same = x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
        return operator(x, y.detach() if is_same else y, **kwargs)


class Sound(Backend):
    name = "sound"


def test_a_lost_half_of_the_gradient_is_noticed() -> None:
    rules = tolerances.load()
    half = evaluate(SQUARE, [HalfOfTheGradient()], rules)
    assert [r.verdict.kind for r in half if r.verdict.fails] == [VerdictKind.DIVERGENT]
    assert [r.direction for r in half if r.verdict.fails] == ["backward"]
    sound = evaluate(SQUARE, [Sound()], rules)
    assert all(r.verdict.passes for r in sound)
    own = replace(SQUARE, args=(FACTOR, replace(TRANSPOSED, shared=False, leaf=True)))
    assert not any(r.verdict.fails for r in evaluate(own, [HalfOfTheGradient()], rules))


@pytest.mark.nightly
def test_a_script_says_it() -> None:
    result = evaluate(SQUARE, [HalfOfTheGradient()], tolerances.load())[-1]
    text = script(result)
    assert "y = x.transpose(0, 1)" in text
    assert "torch.autograd.grad(out, x, g)" in text
    subprocess.run([sys.executable, "-c", text], check=True, capture_output=True)


def test_the_budget_of_a_gradient_counts_both_ways() -> None:
    query = TensorRecipe((6, 8), "float32", ("uniform", -1.0, 1.0), 900)
    attention = operators.get(ATTENTION)

    def sizes(*args: TensorRecipe) -> list[torch.Tensor]:
        materials = prepare(Case(ATTENTION, "float32", args, {}, 700))
        found = Reference(attention, materials, "backward").magnitudes
        return [torch.as_tensor(s) for s in found]

    (together,) = sizes(query, query.again(), query.again())
    apart = sizes(query, query, query)
    assert torch.equal(together, sum(apart, torch.zeros(())))
