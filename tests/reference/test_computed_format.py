"""References in the case's own format: bytes that are read as other numbers, and integers that
wrap before they are written as longer ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from consistency import operators
from consistency.backends import resolve
from consistency.core.model import Case, Result
from consistency.core.recipe import DType, TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.generate.materialize import literal, prepare
from consistency.judge import tolerances
from consistency.reference.computed_format import computed_dtype
from tests.support.catalog.model import Played


def judged(case: Case, deed: Any) -> list[Result]:
    """The CPU, NumPy and a backend that computes otherwise, going forward."""
    backends = [resolve("cpu"), resolve("numpy"), Played("otherwise", deed)]
    operator = operators.get(case.operator)
    return judge_case(case, operator, backends, tolerances.load(), ("forward",))


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize(
    ("dtype", "into"),
    [
        ("float32", "int16"), ("float32", "float64"), ("int64", "float32"), ("uint8", "float16"),
        ("complex64", "float32"), ("bool", "uint8"), ("int16", "int64"), ("float16", "bfloat16"),
    ],
)  # fmt: skip
def test_bytes_that_are_read_as_other_numbers(dtype: str, into: str, offset: int) -> None:
    values = ("integers", 0, 1) if dtype == "bool" else ("integers", 0, 100)
    behind = (("slice", 0, offset, None, None),) if offset else ()
    x = TensorRecipe((3 + offset, 8), dtype, values, 9000, view=behind)
    case = Case("view", dtype, (x, DType(into)))
    operator = operators.get("view")
    assert computed_dtype(operator, prepare(case)) is None
    healthy, by_numpy, otherwise = judged(case, lambda call: call.run() + 1)
    assert not healthy.verdict.fails, healthy.explanation
    assert not by_numpy.verdict.fails, by_numpy.explanation
    assert otherwise.verdict.fails

    def from_the_beginning(call: Any) -> Any:
        (given, target) = call.args
        return given.as_strided(given.shape, given.stride(), 0).view(target)

    if offset and dtype not in ("bool", "int64"):  # half of whose bytes are 0
        assert judged(case, from_the_beginning)[2].verdict.fails


def test_another_shape_is_computed_in_float64() -> None:
    x = TensorRecipe((3, 8), "float32", ("uniform", -1.0, 1.0), 9000)
    case = Case("view", "float32", (x, [8, 3]))
    assert computed_dtype(operators.get("view"), prepare(case)) == "float64"


@pytest.mark.parametrize(("largest", "wraps"), [(2**31 - 1, True), (2**30 - 1, False)])
def test_integers_wrap_before_they_are_written_as_longer_ones(largest: int, wraps: bool) -> None:
    x = literal(torch.tensor([largest, 5], dtype=torch.int32))
    into = literal(torch.zeros(2, dtype=torch.int64))
    case = Case("add.out", "int32", (into, x, x))
    operator = operators.get("add.out")
    assert (computed_dtype(operator, prepare(case)) is None) == wraps
    exactly = torch.tensor([2 * largest, 10])
    healthy, by_numpy, otherwise = judged(case, lambda call: call.args[0].copy_(exactly))
    assert not healthy.verdict.fails, healthy.explanation
    assert not by_numpy.verdict.fails, by_numpy.explanation
    # Whoever adds in the longer dtype is not proved wrong.
    assert (otherwise.verdict.kind.value == "inconclusive") == wraps
    off = judged(case, lambda call: call.args[0].copy_(exactly + 1))[2]
    assert off.verdict.kind.value == ("inconclusive" if wraps else "divergent")
