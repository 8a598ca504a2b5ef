"""NaN and infinities reach the operators that accumulate, and the S of other elements stays."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe, tensors
from consistency.generate import materialize
from consistency.generate.search import batch
from consistency.operators.declare import SUMMED, UNIT, Domain
from consistency.reference import Reference

ACCUMULATING = (
    "sum", "mean", "var", "cumsum", "matmul", "bmm", "dot", "nn.functional.linear",
    "nn.functional.conv2d", "nn.functional.layer_norm", "softmax", "logsumexp",
    "nn.functional.scaled_dot_product_attention", "nn.functional.mse_loss",
    "scatter_add", "fft.fft",
    "nn.functional.avg_pool2d", "linalg.vector_norm",
)  # fmt: skip


def special(case: Case) -> bool:
    """Whether the case's recipe puts NaN or an infinity anywhere."""
    recipes = (*tensors(case.args), *tensors(case.kwargs))
    return any(
        isinstance(t, TensorRecipe) and (t.values[0] == "tokens" or t.special) for t in recipes
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ACCUMULATING)
def test_special_values_reach_accumulations(name: str) -> None:
    drawn = batch(operators.get(name), "float32", 40)
    reached = sum(map(special, drawn))
    assert 0 < reached <= len(drawn) / 2, f"{reached} of {len(drawn)}"


def test_most_cases_of_accumulations_are_plain() -> None:
    """Where one NaN hides a whole result, nothing else can be noticed."""
    plain = [name for name in ACCUMULATING if name != "softmax"]  # which names infinities
    drawn = [case for name in plain for case in batch(operators.get(name), "float32", 40)]
    assert sum(map(special, drawn)) <= len(drawn) / 4


def test_what_propagates_lies_within_the_domain() -> None:
    assert SUMMED.propagated() == ("nan",)
    assert SUMMED.propagated(alone=True) == ("nan", "inf", "-inf")
    assert UNIT.propagated(alone=True) == ("nan",)
    assert Domain(0.0).propagated(alone=True) == ("nan", "inf")
    assert replace(SUMMED, propagates=("nan", "inf")).propagated() == ("nan", "inf")
    assert replace(SUMMED, propagates=()).propagated(alone=True) == ()


@pytest.mark.parametrize("name", ["sum", "matmul", "nn.functional.conv2d", "var", "fft.fft"])
def test_sums_are_given_no_infinities(name: str) -> None:
    """A compensated sum of an infinity is NaN, and is no fault."""
    drawn = batch(operators.get(name), "float32", 60)
    tokens = {
        token
        for case in drawn
        for t in (*tensors(case.args), *tensors(case.kwargs))
        if isinstance(t, TensorRecipe)
        for _, token in t.special
    }
    assert tokens == {"nan"}


def case_of_rows(*positions: tuple[int, str]) -> Case:
    rows = TensorRecipe((4, 8), "float32", ("uniform", -1.0, 1.0), 4096, (), positions)
    return Case("sum", "float32", (rows,), {"dim": 1})


def test_other_rows_keep_their_magnitude() -> None:
    """S of a row without special values is what it would be if the other row had none."""
    operator = operators.get("sum")
    clean, touched = (
        Reference(operator, materialize.prepare(case_of_rows(*positions)), "forward").magnitudes[0]
        for positions in ((), ((9, "inf"), (17, "nan")))
    )
    assert isinstance(clean, torch.Tensor)
    assert isinstance(touched, torch.Tensor)
    assert torch.equal(clean[[0, 3]], touched[[0, 3]])
    assert bool(touched.isfinite().all())


def test_an_infinity_that_is_cut_off_is_no_summand() -> None:
    """S of a transform of the first four numbers does not hold the fifth, which is infinite."""
    row = TensorRecipe((5,), "float32", ("uniform", -1.0, 1.0), 4096, (), ((4, "inf"),))
    case = Case("fft.fft", "float32", (row,), {"n": 4})
    operator = operators.get("fft.fft")
    reference = Reference(operator, materialize.prepare(case), "forward")
    (magnitude,) = reference.magnitudes
    largest = float(torch.as_tensor(magnitude).max())
    assert math.isfinite(largest)
    assert largest > 0.0
