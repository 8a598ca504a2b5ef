"""Whatever a backend returns, the harness judges it: the magnitudes of errors, which right results
seldom need, fit every call and dtype."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.case_runner import JUDGING_FAILED, judge_case
from consistency.generate.shipped import cases as shipped
from consistency.judge import tolerances
from consistency.operators.declare import Operator
from tests.support.catalog.model import Call, Played

PAIRS, CASES = 6, 3  # of an operator and a dtype in each family, and cases of each
UNIFORM = ("uniform", -1.0, 1.0)


def changed(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Call], Any]:
    """A deed that changes every tensor of the result."""

    def deed(call: Call) -> Any:
        result = call.run()
        if isinstance(result, torch.Tensor):
            return change(result)
        if type(result) in (tuple, list) and all(isinstance(r, torch.Tensor) for r in result):
            return type(result)(map(change, result))
        return result

    return deed


def off(x: torch.Tensor) -> torch.Tensor:
    if x.dtype == torch.bool:
        return ~x
    return x * 1.1 if x.is_floating_point() or x.is_complex() else x + 1


def judge(case: Case, operator: Operator) -> None:
    wrong = Played("wrong", changed(off))
    for result in judge_case(case, operator, [wrong], tolerances.load(), operator.directions):
        assert JUDGING_FAILED not in result.explanation, f"{result.explanation}\n{case.line}"


@pytest.mark.one_in(8)
@pytest.mark.parametrize("family", sorted({o.family for o in operators.registry().values()}))
def test_of_every_family(family: str) -> None:
    pairs = [
        (operator, dtype)
        for operator in operators.registry().values()
        for dtype in operator.dtypes
        if operator.family == family and "random" not in operator.traits
    ]
    draw = random.Random(family)
    for operator, dtype in draw.sample(pairs, min(PAIRS, len(pairs))):
        cases = list(shipped.cases(operator, dtype))
        for case in draw.sample(cases, min(CASES, len(cases))):
            judge(case, operator)


COMPLEX, REAL = (
    TensorRecipe((3, 4), dtype, UNIFORM, stop)
    for dtype, stop in (("complex64", 900), ("float32", 1900))
)
HALF = TensorRecipe((4,), "bfloat16", UNIFORM, 3900)
FLAGS = TensorRecipe((3, 4), "bool", ("integers", 0, 1), 2900, leaf=False)


@pytest.mark.parametrize(
    "case",
    [
        Case("formula.kron", "float32", (COMPLEX, REAL), {}, 77),
        Case("formula.stack", "float32", ([COMPLEX, REAL],), {}, 77),
        Case("formula.l1_loss", "float32", (COMPLEX, REAL), {}, 77),
        Case("logit", "bool", (FLAGS,), {"eps": 0.25}),
        Case("std_mean", "complex64", (COMPLEX,), {"axis": 1}, 77),
        Case("nn.functional.rms_norm", "bfloat16", (COMPLEX, [4], HALF), {}, 77),
    ],
    ids=lambda case: case.operator,
)
def test_where_the_harness_once_failed(case: Case) -> None:
    judge(case, operators.get(case.operator))
