"""Masked reductions: the end of an integer dtype, logarithms in half precision, variances of equal
numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from consistency import operators
from consistency.backends import resolve
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.generate.materialize import literal, prepare
from consistency.judge import tolerances
from consistency.reference.computed_format import computed_dtype
from tests.support.catalog.model import Played


def judged(case: Case, deed: Any) -> list[Result]:
    """The CPU, and a backend that computes otherwise, going forward."""
    backends = [resolve("cpu"), Played("otherwise", deed)]
    operator = operators.get(case.operator)
    return judge_case(case, operator, backends, tolerances.load(), ("forward",))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
@pytest.mark.parametrize("name", ["amax", "amin"])
def test_a_row_of_integers_without_any_element_holds_the_end_of_the_dtype(
    name: str, dtype: str
) -> None:
    x = literal(torch.tensor([[3, 5], [2, 9]], dtype=getattr(torch, dtype)))
    mask = literal(torch.tensor([[True, False], [False, False]]))
    case = Case(f"masked.{name}", dtype, (x, 1), {"mask": mask})
    assert computed_dtype(operators.get(case.operator), prepare(case)) is None
    healthy, otherwise = judged(case, lambda call: call.run().index_fill(0, torch.tensor([1]), 7))
    assert not healthy.verdict.fails, healthy.explanation
    assert otherwise.verdict.kind.value == "divergent"
    mistaken = judged(case, lambda call: call.run().index_fill(0, torch.tensor([0]), 4))[1]
    assert mistaken.verdict.kind.value == "divergent"


def test_fractions_without_any_element_are_computed_in_float64() -> None:
    x = literal(torch.tensor([[3.0, 5.0]]))
    case = Case("masked.amax", "float32", (x, 1), {"mask": literal(torch.tensor([[False, True]]))})
    assert computed_dtype(operators.get("masked.amax"), prepare(case)) == "float64"


@pytest.mark.parametrize(("dtype", "off"), [("float16", 1.01), ("bfloat16", 1.0625)])
@pytest.mark.parametrize("name", ["log_softmax", "logsumexp"])
def test_logarithms_in_half_precision(name: str, dtype: str, off: float) -> None:
    # The largest number is small: a logarithm is rounded where it is of the size of the result.
    x = literal(torch.tensor([0.5, -0.25, 1.0, 0.75], dtype=getattr(torch, dtype)))
    mask = literal(torch.tensor([True, True, False, True]))
    case = Case(f"masked.{name}", dtype, (x, 0), {"mask": mask})

    def larger(call: Any) -> torch.Tensor:
        result = call.run()
        return (result.double() * off).to(result.dtype)

    healthy, otherwise = judged(case, larger)
    assert not healthy.verdict.fails, healthy.explanation
    assert otherwise.verdict.fails

    def unmasked(call: Any) -> Any:
        return getattr(torch.masked, name)(*call.args)

    assert judged(case, unmasked)[1].verdict.fails


def spread_of(name: str, dtype: str, view: tuple[Any, ...] = (), size: int = 1000) -> Case:
    """The variance or deviation of what a mask selects of equal numbers, or of such about 0."""
    values = ("uniform", 0.7, 0.71) if view else ("uniform", -1.0, 1.0)
    x = TensorRecipe((1,) if view else (size,), dtype, values, 5000, view)
    mask = TensorRecipe((size,), "bool", ("offset", 1.0, 0.8), 7000)
    return Case(f"masked.{name}", dtype, (x, 0), {"mask": mask}, 1 << 20)


@pytest.mark.parametrize("size", [37, 1000, 4097])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["var", "std"])
def test_the_mean_of_equal_numbers_may_be_rounded(name: str, dtype: str, size: int) -> None:
    case = spread_of(name, dtype, (("expand", size),), size)
    operator = operators.get(case.operator)
    for result in judge_case(case, operator, [resolve("cpu")], tolerances.load()):
        assert not result.verdict.fails, result.explanation


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["var", "std"])
def test_a_variance_without_its_mask_or_its_correction_is_noticed(name: str, dtype: str) -> None:
    case = spread_of(name, dtype)
    for option in ({"mask": None}, {"unbiased": False}):

        def without(call: Any, option: Any = option) -> torch.Tensor:
            return replace(call, kwargs={**call.kwargs, **option}).run()

        healthy, otherwise = judged(case, without)
        assert not healthy.verdict.fails, healthy.explanation
        assert otherwise.verdict.value == "divergent", option
