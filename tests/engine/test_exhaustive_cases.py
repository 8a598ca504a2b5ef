"""Runs try every bit pattern of 16 bits beside the drawn cases: one wrong pattern is noticed, made
small and repeated; a healthy backend is left in peace."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import consistency
from consistency import operators
from consistency.backends.base import attempt
from consistency.backends.cpu import Cpu
from consistency.core.model import Case, Result, Worst
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.diagnose.shrink import minimize
from consistency.diagnose.shrink.patterns import parts
from consistency.engine import engine
from consistency.engine.events import Judged, Minimized, Started, UnitDone
from consistency.engine.plan import plan
from consistency.errors import BundleError
from consistency.generate import exhaustive
from consistency.generate.materialize import prepare
from consistency.judge import tolerances
from tests.support.running import failures, judged

PATTERN = {"float16": 0x34CD, "bfloat16": 0x3E9A}  # 0.3


class OnePattern(consistency.Backend):
    """The CPU, which is wrong at one pattern: in the result, or in the gradient alone."""

    name = "one-pattern"

    def __init__(self, dtype: str, *, gradient: bool = False, least: int = 1) -> None:
        self.pattern, self.gradient, self.least = PATTERN[dtype], gradient, least

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        x = args[0]
        if x.element_size() != 2 or x.numel() < self.least:
            return super().call(operator, args, kwargs)
        wrong = x.detach().view(torch.int16) == self.pattern
        result = super().call(operator, args, kwargs)
        if self.gradient:
            return torch.where(wrong, 1.25 * result - 0.25 * result.detach(), result)
        factor = torch.where(wrong, 1.25, 1.0).to(result.dtype)
        return result.mul_(factor) if operator.mutates else result * factor


def failing(name: str, backend: OnePattern, dtype: str, direction: str) -> Result:
    """The failing result of the exhaustive case; drawn ones may hold the pattern as well."""
    found = failures([name], [backend], [dtype], [direction], examples=1)
    (result,) = [result for result in found if exhaustive.is_exhaustive(result.case)]
    return result


@pytest.mark.parametrize("name", ["sin", "nn.functional.elu", "sqrt_"])
@pytest.mark.parametrize("dtype", sorted(PATTERN))
def test_one_wrong_pattern_forward(name: str, dtype: str) -> None:
    result = failing(name, OnePattern(dtype), dtype, "forward")
    assert result.verdict.value == "divergent"
    assert result.worst is not None
    assert result.worst.index == (PATTERN[dtype],)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sign", "other numbers are off by"),  # known of those who give what the CPU gives
        ("nn.functional.silu", "grown beyond what is expected: at most 1 × budget"),
    ],
)
@pytest.mark.parametrize("dtype", sorted(PATTERN))
def test_what_is_known_of_nan_excuses_no_number(name: str, words: str, dtype: str) -> None:
    """sign(NaN) and silu(-inf) are known to be wrong on the CPU."""
    (healthy,) = [
        result
        for result in judged([name], ["cpu"], [dtype], ["forward"], examples=1)
        if exhaustive.is_exhaustive(result.case)
    ]
    assert healthy.verdict.value == "known"
    result = failing(name, OnePattern(dtype), dtype, "forward")
    assert result.verdict.value == "special-values"
    assert result.metrics["rho_beside"] > 1.0
    assert words in result.explanation


@pytest.mark.parametrize("name", ["sin", "nn.functional.gelu", "erfinv"])
@pytest.mark.parametrize("dtype", sorted(PATTERN))
def test_one_wrong_pattern_backward(name: str, dtype: str) -> None:
    result = failing(name, OnePattern(dtype, gradient=True), dtype, "backward")
    assert result.verdict.value == "divergent"
    assert result.worst is not None
    assert result.worst.index == (PATTERN[dtype],)


def events(*arguments: Any, **more: Any) -> list[Any]:
    return list(engine.run(engine.configure(*arguments, **more)))


def test_the_wrong_pattern_remains_alone() -> None:
    told = events(["sin"], [OnePattern("float16")], ["float16"], ["forward"], examples=1)
    (small,) = [event for event in told if isinstance(event, Minimized)]
    (tensor,) = small.result.case.tensors
    assert isinstance(tensor, TensorRecipe)
    assert (tensor.base, tensor.values) == ((1,), ("every", PATTERN["float16"]))
    assert small.result.verdict == small.original.verdict


def test_a_fault_of_long_tensors_keeps_a_block() -> None:
    backend = OnePattern("float16", least=100)
    told = events(["sin"], [backend], ["float16"], ["forward"], examples=1)
    (small,) = [event for event in told if isinstance(event, Minimized)]
    (tensor,) = small.result.case.tensors
    assert isinstance(tensor, TensorRecipe)
    first = PATTERN["float16"] // 256 * 256
    assert (tensor.base, tensor.values) == ((256,), ("every", first))


def test_the_minimizer_ends_at_one_element() -> None:
    backend = OnePattern("bfloat16", gradient=True)
    operator = operators.get("sin")
    (case,) = exhaustive.cases(operator, "bfloat16")
    (result,) = judge_case(case, operator, [backend], tolerances.load(), ("backward",))
    small = minimize(result, operator, backend, tolerances.load(), seconds=20.0)
    assert small.result.verdict == result.verdict
    assert prepare(small.result.case).build().tensors[0].numel() == 1
    assert small.rate == (3, 3)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", ["exp", "exp_", "ldexp", "atan2"])
def test_parts_keep_numbers_and_cotangents(name: str, dtype: str) -> None:
    """Each part gives the elements that the whole gives there."""
    operator = operators.get(name)
    cases = exhaustive.cases(operator, dtype, all_kinds=dtype == "float16")
    case = cases[-1 if dtype == "float16" else 0]  # the pairs of landmarks come last
    whole = _outputs(operator, case)
    flat = 0x3C40
    pairs = name == "atan2" and dtype == "float16"
    index = (flat // 2048, flat % 2048) if pairs else (flat,)
    found = list(parts(case, Worst(index, 0.0, 0.0)))
    assert len(found) == (1 if pairs else 4)
    for part in found:
        for everywhere, here in zip(whole, _outputs(operator, part), strict=True):
            start = flat // here.numel() * here.numel()
            expected = everywhere.reshape(-1)[start : start + here.numel()]
            # In vector code atan2 may be another neighbor.
            close = 2.0**-22 if dtype == "float32" else 0.0
            torch.testing.assert_close(
                here.reshape(-1), expected, rtol=close, atol=0.0, equal_nan=True
            )


def _outputs(operator: consistency.Operator, case: Case) -> list[torch.Tensor]:
    directions = ("forward", "backward") if operator.differentiable else ("forward",)
    outcomes = [attempt(Cpu(), operator, prepare(case), d) for d in directions]
    return [o.tensor for outcome in outcomes for o in outcome.outputs if o.tensor is not None]


def test_they_are_not_counted_as_examples_and_told() -> None:
    told = events(["sin"], ["cpu"], ["float16", "float32"], examples=3)
    started = next(event for event in told if isinstance(event, Started))
    assert (started.cases, started.exhaustive) == (10, 4)
    judged = [event.case for event in told if isinstance(event, Judged)]
    assert [exhaustive.is_exhaustive(case) for case in judged].count(True) == 4
    assert [event.cases for event in told if isinstance(event, UnitDone)] == [3, 3]


def test_none_are_asked_for() -> None:
    told = events(["sin"], ["cpu"], ["float16"], examples=3, exhaustive=False)
    assert len([event for event in told if isinstance(event, Judged)]) == 3


def test_all_kinds_are_asked_for() -> None:
    config = engine.configure(
        ["exp", "add"], ["cpu"], ["float16", "float32"], examples=1, exhaustive=True
    )
    counts = {
        (unit.operator.name, unit.dtype): sum(map(exhaustive.is_exhaustive, unit.cases))
        for unit in plan(config, lambda: False)
    }
    blocks = (1 << 32) // exhaustive.BLOCK
    assert counts == {
        ("exp", "float16"): 1, ("exp", "float32"): blocks,
        ("add", "float16"): 2, ("add", "float32"): 2,
    }  # fmt: skip


def test_once_in_a_run_with_a_time_budget() -> None:
    config = engine.configure(["sin"], ["cpu"], ["float16"], examples=2, time_budget=60.0)
    units = plan(config, lambda: False)
    begun = [next(units) for _ in range(6)]
    assert sum(map(exhaustive.is_exhaustive, (c for unit in begun for c in unit.cases))) == 1


def test_a_bundle_is_completed_with_the_same_cases(tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    chosen: dict[str, Any] = {"examples": 1, "shipped": False, "out": out}
    consistency.run(["sin"], ["cpu"], ["float16"], **chosen)
    again = consistency.run(["sin"], ["cpu"], ["float16"], **chosen, resume=True)
    assert len(again.results) == 4
    with pytest.raises(BundleError, match="exhaustive"):
        consistency.run(["sin"], ["cpu"], ["float16"], **chosen, resume=True, exhaustive=False)


def test_parts_of_ordinary_cases_do_not_exist() -> None:
    case = Case("exp", "float16", (TensorRecipe((4,), "float16", stop=4),))
    assert not list(parts(case, Worst((1,), 0.0, 0.0)))
    (swept,) = exhaustive.cases(operators.get("exp"), "float16")
    assert not list(parts(swept, None))


class OneFloat32(consistency.Backend):
    """The CPU, which is wrong at one pattern of float32."""

    name = "one-float32"
    pattern = 0x42AEAC50  # exp(87.3…), next to the largest that are finite

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        result, (x,) = super().call(operator, args, kwargs), args
        wrong = x.detach().view(torch.int32) == self.pattern
        return torch.where(wrong, result * (1.0 + 2.0**-18), result)


@pytest.mark.nightly
def test_one_wrong_pattern_of_float32() -> None:
    operator, backend = operators.get("exp"), OneFloat32()
    blocks = exhaustive.cases(operator, "float32", all_kinds=True)
    block = blocks[backend.pattern // exhaustive.BLOCK]
    (result,) = judge_case(block, operator, [backend], tolerances.load(), ("forward",))
    assert result.verdict.fails
    assert result.worst is not None
    first = next(parts(block, result.worst))
    assert first.tensors[0] == TensorRecipe((1,), "float32", ("every", backend.pattern))


@pytest.mark.parametrize(("name", "start"), [("exp", 0x7000), ("exp", 0x0000), ("log", 0x9000)])
def test_numbers_that_all_give_the_same_are_tried(name: str, start: int) -> None:
    """Infinity, 1 and NaN of 256 patterns each."""
    case = Case(name, "float16", (TensorRecipe((256,), "float16", ("every", start)),))
    operator, rules = operators.get(name), tolerances.load()
    (result,) = judge_case(case, operator, [Cpu()], rules, ("forward",))
    assert result.verdict.passes
    backend = OnePattern("float16")
    backend.pattern = (start + 77) if start < 0x8000 else start + 77 - (1 << 16)
    backend.call = lambda operator, args, kwargs: torch.where(  # type: ignore[method-assign]
        args[0].view(torch.int16) == backend.pattern, 0.5, operator(*args, **kwargs)
    )
    (result,) = judge_case(case, operator, [backend], rules, ("forward",))
    assert result.verdict.fails


class Renamed(consistency.Backend):
    """The CPU under a name of the user's."""

    name = "renamed"


@pytest.mark.parametrize("name", ["exp", "reciprocal", "erf", "sinc", "nn.functional.gelu"])
def test_what_torch_gets_wrong_accuses_no_backend_that_computes_with_it(name: str) -> None:
    assert not failures([name], [Renamed()], list(PATTERN), examples=1)


def test_functions_of_two_tensors_are_swept_beside_a_number() -> None:
    """A quotient or a remainder by a number has a kernel of its own: one of a million and more was
    wrong only there (tt-metal#51661)."""
    for name, dtype in itertools.product(
        ("fmod", "remainder", "div", "add"), ("float32", "float64")
    ):
        pairs, beside = exhaustive.cases(operators.get(name), dtype)
        assert (len(pairs.tensors), len(beside.tensors)) == (2, 1)
        number = beside.args[1]
        assert isinstance(number, float)
        assert abs(number) not in (0.0, 1.0)
        assert torch.tensor(number, dtype=torch.bfloat16).item() == number  # nothing is rounded
    # Atan2 takes tensors only.
    assert len(exhaustive.cases(operators.get("atan2"), "float32")) == 1
