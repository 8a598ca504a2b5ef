"""Operands of several formats: what torch's CPU computes of them is not accused, and what is wrong
in the format that counts is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from consistency import operators
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.judge import tolerances
from tests.judge.test_healthy_results import judged
from tests.support.catalog.model import Call, Played, one_of

SHAPE = (2, 19, 7)
COTANGENT = (1 << 20) + 97


def tensor(dtype: str, stop: int, *values: Any, shape: tuple[int, ...] = SHAPE) -> TensorRecipe:
    named = values or (("integers", -9, 9) if "int" in dtype else ("normal", 0.0, 1.0))
    leaf = bool(shape) and "int" not in dtype and dtype != "bool"
    return TensorRecipe(shape, dtype, tuple(named), stop, leaf=leaf)


F16, F32, F64 = (tensor(f"float{bits}", 5000 * n) for n, bits in enumerate((16, 32, 64), 1))
POSITIVE, POSITIVE64 = (
    tensor(f"float{bits}", 9000, "uniform", 1.0, 2.0) for bits in (32, 64)
)  # fmt: skip
WHOLE, MASK = tensor("int64", 7000), tensor("bool", 8000, "integers", 0, 1)
NUMBER = TensorRecipe((), "float32", ("uniform", 0.5, 1.0), 900)
LARGE = tensor("int32", 7000, "integers", -9, 16384)
HUGE = tensor("int32", 7000, "integers", -9, 200_000)
BYTES = tensor("uint8", 3000, "integers", 1, 4)
ANY_BYTES, ANY_BYTES_TOO = (tensor("uint8", 3000 * n, "integers", 0, 255) for n in (2, 3))
BESIDE = TensorRecipe(
    (*SHAPE, 2), "float64", ("tokens", 1.0, 2.0, "max", "-max"), 4000, (("select", 3, 1),),
)  # fmt: skip
STEEP = tensor("float32", 6000, "uniform", 80.0, 100.0)
FARTHEST = tensor("float32", 6000, "tokens", 1.0, 2.0, "max", "-max")
STEEP16 = tensor("float16", 6000, "uniform", 5.0, 12.0)
SMALL16 = TensorRecipe((2,), "float16", ("uniform", 2.0**-10, 1.0), 0)
DOWN16 = TensorRecipe((2,), "float16", ("uniform", -4.0, 4.0), 1, (), ((0, "nan"),))
EMPTY64 = TensorRecipe((0,), "float64", ("normal", 0.0, 1.0), 0, leaf=False)
BF16, C64 = tensor("bfloat16", 11000), tensor("complex64", 13000)
ROWS = tensor("bfloat16", 500, shape=(2, 7))
MATRIX, ROW = (tensor("bfloat16", 900, shape=shape) for shape in ((9, 33), (33,)))
FEW = tensor("int64", 700, shape=(9,))
ONE, ONE64 = (tensor(f"float{bits}", 900, shape=()) for bits in (32, 64))
HEALTHY = {
    "a cotangent in the format of what is written to": Case("add_", "float32", (F16, F32)),
    "in the coarser of two": Case("mul_", "float32", (F32, F64)),
    "a destination of more digits": Case("asinh.out", "float32", (F64, F32)),
    "always computed in float64": Case("float_power.out", "float16", (EMPTY64, SMALL16, DOWN16)),
    "of whole numbers": Case("sinh.out", "int64", (F64, WHOLE)),
    "a function of several calls": Case("nn.functional.cosine_similarity", "float32", (F32, F16)),
    "an exponent less 1": Case("pow", "float64", (POSITIVE64, POSITIVE)),
    "whole numbers that cancel": Case(
        "addcdiv", "float64", (WHOLE, F64, F64), {"value": 0.6731326580047607}
    ),
    "whole numbers that are divided": Case("div", "float16", (WHOLE, F16)),
    "whole numbers of either sign, as a row": Case(
        "nn.functional.cosine_similarity", "float32", (WHOLE, F32), {"dim": 0}
    ),
    "whole numbers that half precision rounds": Case("mul", "float16", (F16, LARGE)),
    "and that leave it": Case("add", "float16", (F16, HUGE)),
    "a destination beside larger numbers": Case("float_power.out", "uint8", (BESIDE, BYTES, BYTES)),
    "a destination of a larger range": Case("exp.out", "float32", (F64, STEEP)),
    "data that move": Case("stack", "float32", ([FARTHEST, F16],)),
    "a destination of fewer digits": Case("sum.out", "float32", (ROWS, F32, 1)),
    "a result that is rounded twice": Case("mul.out", "float16", (BF16, F16, F16)),
    "a range that the steps do not have": Case("exp.out", "float16", (BF16, STEEP16)),
    "a real number by a complex one": Case("div", "float32", (F32, C64)),
    "a complex number times a real one, in place": Case("mul_", "complex64", (C64, F32)),
    "whole numbers in a product": Case("addr", "bfloat16", (MATRIX, FEW, ROW)),
    "half precision beside a complex number": Case("add", "float16", (F16, 0.5 + 1j)),
    "single numbers": Case("cos.out", "float32", (ONE64, ONE)),
    "one number that many read": Case("masked_fill", "float32", (F16, MASK, NUMBER)),
}


def results(case: Case, *backends: Any) -> list[Result]:
    return judged(case, *(backends or ("cpu",)), directions=("forward", "backward"))


def with_cotangent(case: Case) -> Case:
    return Case(case.operator, case.dtype, case.args, case.kwargs, COTANGENT)


@pytest.mark.parametrize("told", HEALTHY)
def test_what_the_cpu_computes_is_not_accused(told: str) -> None:
    found = [r for r in results(with_cotangent(HEALTHY[told])) if r.verdict.tested]
    assert found
    for result in found:
        assert result.verdict.passes, f"{result.direction}: {result.explanation}"


def off(share: float) -> Callable[[Call], Any]:
    """The result and its gradients with one number in 61 off by a share of itself."""

    def changed(x: Tensor) -> Tensor:
        if not (x.is_floating_point() or x.is_complex()):
            return x
        place = torch.arange(x.numel()).reshape(x.shape) % 61 == 3
        return torch.where(place, x * (1.0 + share), x)

    return lambda call: one_of(call.run(), changed)


@pytest.mark.parametrize(
    "told", [told for told in HEALTHY if not told.startswith(("always", "one number", "single"))]
)
def test_one_number_off_by_a_twentieth_is(told: str) -> None:
    found = results(with_cotangent(HEALTHY[told]), Played("off", off(0.05)))
    assert any(r.verdict.fails for r in found if r.backend == "off"), found


def in_float32(call: Call) -> Any:
    """The sum of float64 and float32, rounded to the latter."""
    return call.run().float().double()


def read_as_float32(call: Call) -> Any:
    """The larger of two numbers, those of float16 read as if they were float32's bytes."""
    x, y = call.args
    few = y.contiguous().reshape(-1).view(torch.float32)
    padded = torch.cat([few, few.new_zeros(y.numel() - few.numel())]).reshape(y.shape)
    return torch.fmax(x, padded)


@pytest.mark.parametrize(
    ("case", "deed"),
    [
        (Case("add", "float64", (F64, F32)), in_float32),
        (Case("fmax", "float32", (F32, F16)), read_as_float32),
    ],
    ids=["digits that promotion keeps", "another operand's bytes"],
)
def test_a_kernel_that_does_not_promote_is_accused(case: Case, deed: Callable[..., Any]) -> None:
    found = {r.backend: r for r in judged(case, "cpu", Played("wrong", deed))}
    assert found["wrong"].verdict.fails, found["wrong"]
    assert found["cpu"].verdict.passes, found["cpu"]


@pytest.mark.parametrize(
    "case",
    [
        Case("sub.out", "uint8", (F32, ANY_BYTES, ANY_BYTES_TOO)),
        Case("mul.out", "int64", (F64, WHOLE, MASK)),
    ],
)
def test_integers_that_wrap_or_have_no_negative_zero_are_not_accused(case: Case) -> None:
    """Nothing independent computes them: they are not tested either."""
    (found,) = judged(case, "cpu", directions=("forward",))
    assert not found.verdict.fails
    assert not found.verdict.passes


FRACTIONS = ("normal", 0.0, 1.0)


@pytest.mark.parametrize(
    "case",
    [
        Case(
            "fmod",
            "float32",
            (
                TensorRecipe((1, 21), "float32", ("normal", 0.0, 128.0), 656),
                TensorRecipe((1, 21), "bool", ("integers", 1, 1), 4602, leaf=False),
            ),
        ),
        Case(
            "cat",
            "float16",
            (
                [
                    TensorRecipe((1, 8, 14, 33), "complex64", FRACTIONS, 11491),
                    TensorRecipe((1, 8, 14, 31), "float16", FRACTIONS, 15142),
                ],
            ),
            {"dim": -1},
            1048576,
        ),
    ],
    ids=lambda case: case.operator,
)
def test_wrong_results_of_operands_of_other_kinds_fail(case: Case) -> None:
    """Booleans have no magnitude, and both parts of a complex number share theirs."""
    operator = operators.get(case.operator)
    wrong = Played("wrong", lambda call: call.run() * 1.1)
    for direction in operator.directions:
        (result,) = judge_case(case, operator, [wrong], tolerances.load(), (direction,))
        assert result.verdict.fails, result.explanation
