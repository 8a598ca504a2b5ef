"""NumPy as a backend promotes as torch does."""

from __future__ import annotations

import pytest

import consistency
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.evaluation import evaluate
from consistency.judge.tolerances import load

HALF = TensorRecipe((3, 4), "float16", ("uniform", -1.0, 1.0), 500)
NUMBER = TensorRecipe((), "float32", ("uniform", 0.5, 1.0), 900, leaf=False)


@pytest.mark.parametrize("name", ["add", "div", "maximum", "copysign"])
def test_one_number_of_float32_promotes_no_tensor_of_float16(name: str) -> None:
    case = Case(name, "float16", (HALF, NUMBER))
    (found,) = evaluate(
        case, [consistency.backends.resolve("numpy")], load(), directions=("forward",)
    )
    assert found.verdict.value in ("exact", "rounding"), found.explanation


@pytest.mark.parametrize("number", [32768, -32769])
@pytest.mark.parametrize("name", ["le", "gt", "eq"])
def test_a_number_beyond_the_dtype_is_compared_as_it_is(name: str, number: int) -> None:
    whole = TensorRecipe((3, 4), "int16", ("integers", -9, 9), 500)
    case = Case(name, "int16", (whole, number))
    (found,) = evaluate(
        case, [consistency.backends.resolve("numpy")], load(), directions=("forward",)
    )
    assert found.verdict.value in ("exact", "inconclusive"), found.explanation
    assert not found.verdict.fails
