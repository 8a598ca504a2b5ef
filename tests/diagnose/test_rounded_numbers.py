"""Python's numbers are converted to the tensors' format: where the function steps, both results are
right; where it is steep, or elsewhere, a wrong one is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from consistency import backends, operators
from consistency.backends.base import Backend
from consistency.core.model import DIRECTIONS, Case
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.diagnose.moved_numbers import moved_numbers
from consistency.diagnose.rounded_numbers import RoundedNumbers
from consistency.generate.materialize import literal, prepare
from consistency.judge import tolerances
from consistency.reference import Reference

F = "nn.functional."
NUMBER = 0.3
HALVES = ("float16", "bfloat16")


class Faulty(Backend):
    """Computes something else."""

    name = "faulty"

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def near(dtype: str) -> torch.Tensor:
    """The number as the format has it, its neighbors, and others."""
    form = getattr(torch, dtype)
    number, up = torch.tensor(NUMBER, dtype=form), torch.tensor(9.0, dtype=form)
    neighbors = [torch.nextafter(number, up), torch.nextafter(number, -up)]
    others = torch.tensor([0.5, 1.25, -2.0], dtype=form)
    return torch.cat([torch.stack([number, -number, *neighbors]), others])


def calls(dtype: str) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    x = near(dtype)
    one, zero = torch.ones_like(x), torch.zeros_like(x)
    number = torch.tensor(NUMBER, dtype=torch.float64)
    return {
        F + "hardshrink": ((x,), {"lambd": NUMBER}),
        F + "softshrink": ((x,), {"lambd": NUMBER}),
        F + "threshold": ((x, NUMBER, 2.0), {}),
        F + "hardtanh": ((x, -NUMBER, NUMBER), {}),
        F + "softplus": ((x,), {"threshold": NUMBER}),
        F + "margin_ranking_loss": ((x, zero, one), {"margin": NUMBER}),
        F + "hinge_embedding_loss": ((x, -one), {"margin": NUMBER}),
        "clamp": ((x, -NUMBER, NUMBER), {}),
        "gt": ((x, NUMBER), {}),
        "eq": ((x, NUMBER), {}),
        "maximum": ((x, number), {}),
        "remainder": ((x, NUMBER), {}),
        "fmod": ((8 * x, NUMBER), {}),
        "histc": ((x.clamp(-1, 1),), {"bins": 4, "min": -NUMBER, "max": NUMBER}),
        "isclose": ((x, x + x[0]), {"atol": NUMBER, "rtol": 0.0}),
    }


def judged(
    name: str, dtype: str, args: tuple[Any, ...], kwargs: dict[str, Any], backend: Backend
) -> list[str]:
    given = tuple(literal(arg) if isinstance(arg, torch.Tensor) else arg for arg in args)
    case, operator = Case(name, dtype, given, kwargs, 90), operators.get(name)
    directions = DIRECTIONS if operator.differentiable else DIRECTIONS[:1]
    results = judge_case(case, operator, [backend], tolerances.load(), directions)
    return [result.verdict.value for result in results]


@pytest.mark.parametrize("dtype", ["float32", *HALVES])
@pytest.mark.parametrize("name", sorted(calls("float32")))
def test_a_converted_number_is_no_error(name: str, dtype: str) -> None:
    (cpu,) = backends.resolve_all(["cpu"])
    found = judged(name, dtype, *calls(dtype)[name], cpu)
    assert set(found) <= {"rounding", "exact", "unsupported"}, found


@pytest.mark.parametrize("dtype", ["float32", *HALVES])
def test_neither_is_a_number_that_is_not_converted(dtype: str) -> None:
    """A kernel that compares in float64 is as right."""

    def wide(x: torch.Tensor, number: float) -> torch.Tensor:
        return x.double() > number

    assert judged("gt", dtype, (near(dtype), NUMBER), {}, Faulty(wide)) == ["exact"]


@pytest.mark.parametrize("dtype", ["float32", *HALVES])
@pytest.mark.parametrize(
    ("name", "function"),
    [
        (F + "hardshrink", lambda x, lambd: torch.where(x.abs() > 1.01 * lambd, x, 0)),
        (F + "hardshrink", lambda x, lambd: x),
        ("gt", lambda x, number: x > number * 1.02),
        ("gt", lambda x, number: ~(x > number)),
        ("remainder", lambda x, number: torch.remainder(x, number * 1.01)),
        (F + "threshold", lambda x, bound, value: torch.where(x > bound, x, 0)),
    ],
)
def test_other_numbers_are_errors(name: str, function: Callable[..., Any], dtype: str) -> None:
    first = judged(name, dtype, *calls(dtype)[name], Faulty(function))[0]
    assert first in ("divergent", "special-values", "structure"), first


def test_a_rounded_option_is_not_admitted_where_the_function_is_steep() -> None:
    """exp(beta x) of a rounded beta is another function; only steps are admitted."""
    x = torch.tensor([-200.0, -190.0, -150.0, -3.0], dtype=torch.bfloat16)
    case = Case(F + "softplus", "bfloat16", (literal(x),), {"beta": NUMBER})
    operator, materials = operators.get(case.operator), prepare(case)
    reference = Reference(operator, materials, "forward")
    near = torch.tensor(NUMBER, dtype=torch.bfloat16).item()
    outcome = Faulty(lambda x, beta: torch.nn.functional.softplus(x, beta=near)).run(
        operator, materials, "forward"
    )
    others = RoundedNumbers(reference)
    assert others.admissible
    nearest = others.nearest(outcome)
    assert nearest is not None
    here, there = (each.outputs[0].tensor[:3] for each in (nearest, reference))
    torch.testing.assert_close(here, there, rtol=2**-16, atol=0.0)


def test_an_exponent_is_an_operand() -> None:
    """It is converted like every operand, as torch's CPU does."""
    x = torch.tensor([1e38, 3e37, 1e30, 2.0, 0.5, 7.0], dtype=torch.bfloat16)
    (cpu,) = backends.resolve_all(["cpu"])
    assert judged("pow", "bfloat16", (x, NUMBER), {}, cpu)[0] in ("exact", "rounding")
    near = torch.tensor([0.9765625, 0.984375, 0.9921875, 1.0078125], dtype=torch.bfloat16)
    assert judged("pow", "bfloat16", (near, 3256), {}, cpu)[0] in ("exact", "rounding")  # 3264


@pytest.mark.parametrize("dtype", HALVES)
def test_a_fraction_that_is_whole_in_the_format_is_taken_as_either(dtype: str) -> None:
    """In half precision 100.001 is 100, so that powers of negative numbers are no NaN."""
    x = torch.tensor([-1.5, -0.75, 0.5, 1.25, 2.0], dtype=getattr(torch, dtype))
    (cpu,) = backends.resolve_all(["cpu"])
    assert judged("pow", dtype, (x, 4.001), {}, cpu)[0] in ("exact", "rounding")
    not_converted = Faulty(lambda x, y: torch.pow(x.double(), y).to(x.dtype))
    assert judged("pow", dtype, (x, 4.001), {}, not_converted)[0] in ("exact", "rounding")
    absolute = Faulty(lambda x, y: torch.pow(x.abs(), 3.0))
    assert judged("pow", dtype, (x, 4.001), {}, absolute)[0] not in ("exact", "rounding")


@pytest.mark.parametrize("name", ["add", "mul", "sub", "div", "pow", "maximum"])
@pytest.mark.parametrize("dtype", ["float32", *HALVES])
def test_the_gradient_of_a_single_number_is_as_precise_as_the_results(
    name: str, dtype: str
) -> None:
    """It has the number's format, float64, and is computed in that of the results."""
    torch.manual_seed(0)
    x = torch.randn(9).abs().to(getattr(torch, dtype))
    number = torch.tensor(NUMBER, dtype=torch.float64)
    (cpu,) = backends.resolve_all(["cpu"])
    assert judged(name, dtype, (x, number), {}, cpu)[1] in ("exact", "rounding")

    def off(x: torch.Tensor, number: torch.Tensor) -> Any:
        result = getattr(torch, name)(x, number)
        if number.requires_grad:
            number.register_hook(lambda gradient: gradient * 2)
        return result

    assert judged(name, dtype, (x, number), {}, Faulty(off))[1] == "divergent"


def test_the_gradient_of_a_float64_tensor_is_float64s() -> None:
    """A tensor with dimensions widens the results."""
    x, wide = torch.randn(9), torch.randn(9, dtype=torch.float64)
    (cpu,) = backends.resolve_all(["cpu"])
    assert judged("mul", "float32", (x, wide), {}, cpu)[1] in ("exact", "rounding")

    def narrow(x: torch.Tensor, wide: torch.Tensor) -> Any:
        return x * wide.float()

    assert judged("mul", "float32", (x, wide), {}, Faulty(narrow))[0] == "structure"


@pytest.mark.parametrize(
    "strange",
    [
        lambda x, lambd: x[:1],
        lambda x, lambd: torch.complex(x, x),
        lambda x, lambd: x.to_sparse(),
        lambda x, lambd: (x, x),
        lambda x, lambd: 0.0,
        lambda x, lambd: None,
    ],
    ids=["shape", "complex", "sparse", "two", "number", "none"],
)
def test_outputs_of_another_kind_fail_as_before(strange: Callable[..., Any]) -> None:
    found = judged(
        F + "hardshrink", "float32", (near("float32"),), {"lambd": NUMBER}, Faulty(strange)
    )
    assert found[0] in ("structure", "error"), found


@pytest.mark.parametrize(
    ("operator", "dtype", "number"),
    [
        ("xlogy", "float16", 1e6),  # infinite in float16
        ("logical_and", "float32", TensorRecipe((), "float32", ("constant", "tiny"), 3)),
        ("mul", "int32", 0.55),
    ],
)
def test_numbers_of_a_wider_format_are_converted(operator: str, dtype: str, number: Any) -> None:
    """Beyond the format, below it, and to the default dtype beside whole numbers."""
    beside = "int32" if dtype == "int32" else "float16"
    values = ("integers", -9, 9) if dtype == "int32" else ("uniform", -1.0, 1.0)
    case = Case(operator, dtype, (TensorRecipe((7, 4), beside, values, 9387), number))
    declared = operators.get(operator)
    healthy = backends.resolve_all(["cpu", "cpu+onednn=off"])
    for result in judge_case(case, declared, healthy, tolerances.load(), ("forward",)):
        assert not result.verdict.fails, result.explanation


def test_a_fraction_beside_whole_numbers_admits_a_rounding_only() -> None:
    case = Case("mul", "int32", (TensorRecipe((7, 4), "int32", ("integers", 1, 9), 9387), 0.55))
    faulty = Faulty(lambda x, y: torch.mul(x, y) * (1.0 + 2.0**-18))
    (result,) = judge_case(case, operators.get("mul"), [faulty], tolerances.load(), ("forward",))
    assert result.verdict.fails, result.explanation


def test_a_literal_number_stands_in_a_storage_of_others() -> None:
    """A recording keeps what lies beside a view: the number alone is moved."""
    storage = torch.tensor([7.0, 8.0, 0.1, 9.0], dtype=torch.float64)
    number = literal(storage[2], before=2)
    materials = prepare(Case("mul", "float32", (TensorRecipe((3,), "float32"), number)))
    moved, distance = moved_numbers(materials, "float32", 1.0)
    place = number.offset
    assert moved.bases[1][place] == float(torch.tensor(0.1))
    assert distance == abs(float(torch.tensor(0.1)) - 0.1)
    others = [*range(place), *range(place + 1, len(moved.bases[1]))]
    assert moved.bases[1][others].tolist() == materials.bases[1][others].tolist()


# Calls of whole numbers that float32 cannot hold: torch converts them first.
WHOLE: dict[str, tuple[Any, ...]] = {
    "add": (2.5,), "rsub": (0.3,), "mul": (0.3,), "fmod": (2.5,), "remainder": (2.5,),
    "floor_divide": (2.5,), "sin": (),
}  # fmt: skip


def shortened(x: torch.Tensor) -> torch.Tensor:
    """In float32 with four bits fewer: what is added to it and taken away again rounds them off."""
    wide = x.float()
    return wide + 16.0 * wide - 16.0 * wide


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_are_converted_before_anything_is_computed(name: str, dtype: str) -> None:
    large, step = (2**29, 1001) if dtype == "int32" else (2**49, 1_000_000_007)
    x = large + torch.arange(-300, 300, dtype=getattr(torch, dtype)) * step
    operator, more = operators.get(name), WHOLE[name]
    for backend in (backends.resolve("cpu"), backends.resolve("numpy")):
        assert judged(name, dtype, (x, *more), {}, backend) in (["rounding"], ["exact"])
    wrong = Faulty(lambda x, *more: operator(shortened(x), *more))
    assert judged(name, dtype, (x, *more), {}, wrong) == ["divergent"]
