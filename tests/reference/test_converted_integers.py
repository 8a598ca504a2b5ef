"""Single whole numbers beside a narrower integer dtype: the reference converts them as torch
does."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

import consistency
from consistency import operators
from consistency.backends import resolve
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.evaluation import evaluate
from consistency.generate.materialize import prepare
from consistency.judge.tolerances import load
from consistency.reference.converted_integers import converted

rules = functools.cache(load)
NUMBERS = TensorRecipe((8, 4), "int8", ("integers", -9, 9), 3723)
WIDE = TensorRecipe((), "int32", ("integers", 256, 256), 6)  # 0 as an int8


class Unconverted(consistency.Backend):
    """Computes in the widest dtype, and converts the result."""

    name = "unconverted"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        expected = super().call(operator, args, kwargs)
        return super().call(operator, [arg.long() for arg in args], kwargs).to(expected.dtype)


def judged(name: str, backend: Any) -> Result:
    backend = resolve(backend) if isinstance(backend, str) else backend
    case = Case(name, "int32", (NUMBERS, WIDE))
    (result,) = evaluate(case, [backend], rules(), directions=("forward",))
    return result


@pytest.mark.parametrize("name", ["logical_or", "logical_and", "maximum", "clamp_min", "eq", "mul"])
@pytest.mark.parametrize("backend", ["cpu", "cpu+onednn=off", "numpy"])
def test_converted_numbers_are_right(name: str, backend: str) -> None:
    result = judged(name, backend)
    assert not result.verdict.fails, result.explanation


@pytest.mark.parametrize("name", ["logical_or", "logical_xor"])
def test_unconverted_ones_are_not(name: str) -> None:
    result = judged(name, Unconverted())
    assert result.verdict.fails, result.explanation


def bases(name: str, *args: Any) -> tuple[list[Any], list[Any]]:
    """What each tensor is filled with, before and after."""
    operator, materials = operators.get(name), prepare(Case(name, "int32", args))
    dims = [t.ndim for t in materials.build().tensors]
    after = converted(operator, materials, dims)
    return [b.tolist() for b in materials.bases], [b.tolist() for b in after.bases]


def test_only_single_numbers_of_a_wider_integer_dtype_change() -> None:
    before, after = bases("maximum", NUMBERS, WIDE)
    assert (before[1], after[1]) == ([256], [0])
    assert before[0] == after[0]


@pytest.mark.parametrize(
    "args",
    [
        (WIDE, WIDE),  # nothing has dimensions
        (TensorRecipe((3,), "bool", ("integers", 0, 1), 9), WIDE),  # an integer outranks booleans
        (TensorRecipe((3,), "float32", ("uniform", -1.0, 1.0), 9), WIDE),
        (TensorRecipe((3,), "int64", ("integers", -9, 9), 9), WIDE),
        (NUMBERS, TensorRecipe((), "bfloat16", ("integers", -5, -5), 9)),  # held as bits
        (NUMBERS, TensorRecipe((), "float32", ("uniform", 256.0, 257.0), 9)),
    ],
)
def test_others_stay(args: tuple[Any, ...]) -> None:
    before, after = bases("maximum", *args)
    assert before == after


FLOATS = [
    "__rdiv__", "atan2", "copysign", "div", "float_power", "ldexp", "special.xlog1py",
    "special.zeta", "true_divide", "xlogy",
]  # fmt: skip


@pytest.mark.parametrize("name", FLOATS)
def test_what_gives_floats_converts_to_them(name: str) -> None:
    numbers = TensorRecipe((8, 4), "uint8", ("integers", 2, 9), 3723)
    below = TensorRecipe((), "int64", ("integers", -3, -3), 6)  # 253 as a uint8
    case = Case(name, "uint8", (numbers, below))
    (result,) = evaluate(case, [resolve("cpu")], rules(), directions=("forward",))
    assert not result.verdict.fails, result.explanation


def test_whole_quotients_are_those_of_the_converted_number() -> None:
    case = Case("div", "int32", (NUMBERS, WIDE), {"rounding_mode": "floor"})
    operator, materials = operators.get("div"), prepare(case)
    assert [b.tolist() for b in converted(operator, materials, [2, 0]).bases][1] == [0]


def test_each_operator_converts_as_torch_does() -> None:
    """Of every operator whose numbers are converted here, the CPU is right beside one that another
    dtype cannot hold."""
    numbers = TensorRecipe((4,), "int8", ("integers", 1, 9), 3723)
    wide = TensorRecipe((), "int32", ("integers", 300, 300), 6)
    seen, failed = 0, []
    for name, operator in operators.registry().items():
        if operator.form_of is not None or operator.ruled_by[1] not in ("binary", "comparison"):
            continue
        for args in ((numbers, wide), (wide, numbers)):
            results = evaluate(
                Case(name, "int32", args), [resolve("cpu")], rules(), directions=("forward",)
            )
            seen += any(result.verdict.passes for result in results)
            # An error is that of a few, which take one dtype only.
            wrong = (r for r in results if r.verdict.fails and r.verdict.value != "error")
            failed += [f"{name}: {r.explanation}" for r in wrong]
    assert not failed
    assert seen > 60


def test_an_index_is_no_operand() -> None:
    index = TensorRecipe((), "int64", ("integers", 200, 200), 6)
    rows = TensorRecipe((256, 2), "int8", ("integers", -9, 9), 3723)
    before, after = bases("index_select", rows, 0, index)
    assert before == after
    (result,) = evaluate(
        Case("index_select", "int8", (rows, 0, index)), [resolve("cpu")], rules(),
        directions=("forward",),
    )  # fmt: skip
    assert not result.verdict.fails


def test_torch_converts_them() -> None:
    x = torch.zeros(2, dtype=torch.int8)
    assert torch.maximum(x, torch.tensor(256)).tolist() == [0, 0]
    assert torch.logical_or(x, torch.tensor(256)).tolist() == [False, False]
