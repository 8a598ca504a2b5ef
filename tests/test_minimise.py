"""Planted faults are made small: with the same verdict and cause, as small as a person could make them, and in time.

A dozen of them here; all of them, with the distribution of the times, under ``-m nightly``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from catalogue import FAULTS
from torch import Tensor

import consistency
from consistency import engine, operators, opinfo, tolerances
from consistency.dtypes import real_of
from consistency.errors import UsageError
from consistency.events import Judged
from consistency.materialise import case_of, prepare
from consistency.minimise import Minimal, minimise
from consistency.minimise.oracle import first_of
from consistency.minimise.pieces import literally
from consistency.model import Case, Result
from consistency.second_look import Looks

Deed = Callable[..., Any]
RULES = tolerances.load()


class Planted(consistency.Backend):
    """The CPU, with a fault planted behind it: ``wrong(result, *args)``."""

    name = "planted"

    def __init__(self, wrong: Deed) -> None:
        self.wrong = wrong

    def call(self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self.wrong(super().call(operator, args, kwargs), *args)


@dataclass(frozen=True)
class Fault:
    """A fault, and how small its minimal case must be: numbers, numbers that are not 0, and a sentence about its threshold."""

    name: str
    operator: str
    make: Callable[[], consistency.Backend]
    numbers: int
    nonzero: int
    dtype: str = "float32"
    direction: str = "forward"
    threshold: str = ""


def of_a_transposed_view(result: Tensor, x: Tensor, *rest: Any) -> Tensor:
    transposed = x.ndim > 1 and min(x.shape[-2:]) > 1 and x.stride(-1) > x.stride(-2)
    return result * 1.01 if transposed else result


def own(name: str, operator: str, wrong: Deed, numbers: int, nonzero: int, **more: Any) -> Fault:
    return Fault(name, operator, lambda: Planted(wrong), numbers, nonzero, **more)


def listed(numbers: int, nonzero: int, name: str) -> Fault:
    """One of the catalogue, by how its name ends."""
    (row,) = [row for row in FAULTS if row.name == f"played:{name}"]
    return Fault(row.name, row.operator, row.backend, numbers, nonzero, row.dtype, row.directions[0])


SOME = (
    own("K % 8 == 3", "matmul", lambda y, a, b: y * 1.01 if a.shape[-1] % 8 == 3 else y, 6, 2,
        threshold="K = 2 passes, K = 3 fails, K = 4 passes"),
    own("of a transposed view", "sum", of_a_transposed_view, 4, 1),
    own("x > 88", "exp", lambda y, x: torch.where(x > 88, y * 1.01, y), 1, 1, threshold="passes at 88.0, fails at 88.0000076"),
    own("88 < x < 88.7", "exp", lambda y, x: torch.where((x > 88) & (x < 88.7), y * 1.01, y), 1, 1,
        threshold="passes at 88.6999969, fails at 88.6999893"),
    own("K > 19", "mm", lambda y, a, b: y * 1.01 if a.shape[-1] > 19 else y, 40, 2, threshold="K = 19 passes, K = 20 fails"),
    listed(2, 2, "TF32 inputs / matmul float32"),
    listed(1, 1, "computed in float32 / sqrt float64"),
    listed(9, 1, "terms beyond a multiple of 8 dropped / amax float32"),
    listed(2, 1, "write to a view lost / mul_ float32"),
    listed(8, 2, "gradient transposed / bmm float32 backward"),
    listed(1, 1, "NaN dropped / softmax float32"),
    listed(3, 2, "wrong pixel centre / nn.functional.grid_sample float32"),
)  # fmt: skip


@functools.cache
def found(fault: Fault, seed: int = 0) -> tuple[Result, consistency.Backend]:
    """The first failure of a run, and the backend that failed."""
    for examples in (25, 100):
        backend = fault.make()
        chosen = engine.settings([fault.operator], [backend], [fault.dtype], [fault.direction], examples, seed, shrink=False)
        for event in engine.run(chosen):
            failing = [r for r in event.results if r.verdict.fails] if isinstance(event, Judged) else []
            if failing:
                return failing[0], backend
    raise AssertionError(f"{fault.name} was not found")


def small(result: Result, backend: consistency.Backend, **options: Any) -> Minimal:
    operator = operators.get(result.operator) if not result.case.source else opinfo.operator_of(result.case)
    return minimise(result, operator, backend, RULES, **options)


def size(case: Case) -> tuple[int, int]:
    """Numbers in all tensors, and how many of them are not 0."""
    bases = prepare(case).bases
    return sum(b.size for b in bases), sum(int(np.count_nonzero(real_of(b))) for b in bases)


def check(fault: Fault, minimal: Minimal) -> None:
    numbers, nonzero = size(minimal.result.case)
    assert (numbers, nonzero) <= (fault.numbers, fault.nonzero), minimal.result.case.line
    assert nonzero <= fault.nonzero, minimal.result.case.line
    assert minimal.result.verdict == minimal.original.verdict
    assert first_of(minimal.result) == first_of(minimal.original)
    assert minimal.result.cause == minimal.original.cause
    assert minimal.rate == (3, 3)
    assert not minimal.interrupted
    assert not fault.threshold or fault.threshold in minimal.thresholds


@pytest.mark.parametrize("fault", SOME, ids=lambda fault: f"{fault.operator} {fault.name}")
def test_a_fault_is_made_small(fault: Fault) -> None:
    check(fault, small(*found(fault)))


@pytest.mark.parametrize("fault", SOME[:4], ids=lambda fault: f"{fault.operator} {fault.name}")
def test_literal_tensors_are_made_as_small(fault: Fault) -> None:
    result, backend = found(fault)
    case = literally(result.case)
    (literal,) = engine.judge_case(case, operators.get(case.operator), [backend], RULES, (result.direction,), looks=Looks())
    assert literal.verdict.fails
    check(fault, small(literal, backend))


def test_what_is_told_of_a_case() -> None:
    minimal = small(*found(SOME[1]))
    assert minimal.steps[1].endswith("→ 4 numbers")
    assert "1 of 4 numbers not 0" in minimal.steps
    assert "layout still needed: tensor 0 strides [1, 2]" in minimal.steps
    assert minimal.thresholds == ("1×2 passes, 2×2 fails",)
    assert minimal.calls > 10


def test_what_does_not_fail_is_refused() -> None:
    case = case_of("exp", "float32", (torch.tensor([1.0, 2.0, 3.0]),), {})
    (result,) = engine.judge_case(case, operators.get("exp"), [Planted(lambda y, x: y)], RULES, ("forward",))
    with pytest.raises(UsageError, match=r"exp-\w+ is (rounding|exact) on planted: only what fails can be made smaller"):
        small(result, Planted(lambda y, x: y))


def test_what_does_not_happen_again_is_left_as_it_is() -> None:
    result, _ = found(SOME[2])
    minimal = small(result, Planted(lambda y, x: y))
    assert minimal.result is result
    assert minimal.rate == (0, 10)
    assert minimal.steps == ("it did not happen in 10 runs here: nothing was made smaller",)
