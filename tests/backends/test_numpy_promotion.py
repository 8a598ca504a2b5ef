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


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    ("name", "further"),
    [("addr", True), ("dist", False), ("broadcast_tensors", False), ("expand_as", False)],
)
def test_whole_numbers_make_no_float64(name: str, further: bool, dtype: str) -> None:
    left = TensorRecipe((3, 4), dtype, ("uniform", -1.0, 1.0), 500)
    shapes = ((3,), (4,)) if further else ((3, 4),)
    others = [TensorRecipe(s, "int64", ("integers", -9, 9), 900, leaf=False) for s in shapes]
    case = Case(name, dtype, (left, *others))
    (found,) = evaluate(
        case, [consistency.backends.resolve("numpy")], load(), directions=("forward",)
    )
    assert found.verdict.value in ("exact", "rounding"), found.explanation
