"""Causes of results of another shape, of misread inputs whose elements share memory, and of
subnormal inputs that are taken for zero; other faults that look alike are not named so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import consistency
from consistency import operators
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe
from consistency.diagnose import evaluation
from consistency.judge import tolerances

Deed = Callable[[Any, dict[str, Any]], torch.Tensor]


class Doing(consistency.Backend):
    """Computes what ``deed`` makes of the arguments."""

    def __init__(self, operator: Callable[..., torch.Tensor], deed: Deed) -> None:
        self.name, self.right, self.deed = "doing", operator, deed

    def call(self, operator: consistency.Operator, args: Any, kwargs: Any) -> Any:
        return self.deed(args, kwargs)


def judged(case: Case, deed: Deed, direction: str = "forward") -> Result:
    backend = Doing(operators.get(case.operator), deed)
    (result,) = evaluation.evaluate(
        case,
        [backend],
        tolerances.load(),
        directions=(direction,),
        diagnosis_budget=evaluation.DiagnosisBudget(),
    )
    return result


def tensor(shape: tuple[int, ...], stop: int = 0, **more: Any) -> TensorRecipe:
    return TensorRecipe(shape, "float32", stop=1000 + stop, **more)


POOL = Case(
    "nn.functional.avg_pool1d", "float32", (tensor((2, 12)), 3), {"stride": 2, "ceil_mode": True}
)


def test_an_option_that_changes_the_shape_is_found_by_shape_and_numbers() -> None:
    ignored = judged(
        POOL, lambda args, kwargs: F.avg_pool1d(*args, **{**kwargs, "ceil_mode": False})
    )
    assert ignored.verdict.value == "structure"
    assert ignored.cause == "argument-ignored"
    assert "ceil_mode taken as False explains 100%" in ignored.explanation


@pytest.mark.parametrize("deed", [
    lambda args, kwargs: F.avg_pool1d(*args, **{**kwargs, "ceil_mode": False}) * 1.01,
    lambda args, kwargs: F.avg_pool1d(*args, **kwargs)[:, :-2],
    lambda args, kwargs: F.avg_pool1d(*args, **kwargs)[:, :0],
], ids=["other numbers", "too few", "none"])  # fmt: skip
def test_another_shape_with_other_numbers_is_no_ignored_option(deed: Deed) -> None:
    result = judged(POOL, deed)
    assert result.verdict.value == "structure"
    assert not result.cause


def contiguous_reading(x: torch.Tensor) -> torch.Tensor:
    """As many elements as the tensor has from its first one on; what is not there is 0."""
    held = x.untyped_storage().nbytes() // x.element_size() - x.storage_offset()
    inside = x.as_strided((min(x.numel(), held),), (1,), x.storage_offset())
    return F.pad(inside, (0, x.numel() - inside.numel())).reshape(x.shape)


@pytest.mark.parametrize("view", [
    (("expand", 3, 4, 5),),
    (("unfold", 1, 5, 2),),
], ids=["expanded", "windows"])  # fmt: skip
def test_strides_that_are_ignored_beyond_the_memory(view: Any) -> None:
    base = (3, 1, 5) if view[0][0] == "expand" else (3, 11)
    case = Case("mul", "float32", (tensor(base, view=view), tensor((3, 4, 5), 999)))
    misread = judged(case, lambda args, _: contiguous_reading(args[0]) * args[1])
    assert misread.cause == "strides-ignored"
    assert "strides of argument 0 ignored explains 100%" in misread.explanation


def test_another_fault_of_expanded_inputs_is_no_misreading() -> None:
    case = Case(
        "mul", "float32", (tensor((3, 1, 5), view=(("expand", 3, 4, 5),)), tensor((3, 4, 5), 999))
    )
    expanded_only = judged(
        case, lambda args, _: args[0] * args[1] * (1.0 if args[0].is_contiguous() else 1.25)
    )
    assert expanded_only.verdict.fails
    assert expanded_only.cause in ("depends-on-layout", "scaled")


@pytest.mark.parametrize("name", ["special.i1e", "atan"])
def test_subnormal_inputs_that_are_taken_for_zero(name: str) -> None:
    case = Case(name, "float32", (TensorRecipe((2048,), "float32", ("every", 0, (1 << 21) + 1)),))
    operator = operators.get(name)

    def flushed(args: Any, _: Any) -> torch.Tensor:
        tiny = torch.finfo(torch.float32).tiny
        result: torch.Tensor = operator(torch.where(args[0].abs() < tiny, args[0] * 0.0, args[0]))
        return result

    result = judged(case, flushed)
    assert result.verdict.fails
    assert result.cause == "flushed-subnormals"


def test_numbers_beside_subnormal_ones_are_explained_first() -> None:
    case = Case("atan", "float32", (TensorRecipe((2048,), "float32", ("every", 0, (1 << 21) + 1)),))
    result = judged(case, lambda args, _: torch.atan(args[0]) * 1.01)
    assert result.cause == "scaled"


class InOrder(torch.autograd.Function):
    """Passes on the gradient that arrives as it lies in memory, times ``factor``."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (arrived,) = gradients
        if ctx.factor != 1.0:
            return arrived * ctx.factor, None
        return arrived.as_strided(arrived.shape, torch.empty(arrived.shape).stride()).clone(), None


@pytest.mark.parametrize(("factor", "cause"), [(1.0, "strides-ignored"), (1.25, "scaled")])
def test_strides_of_a_cotangent_that_are_ignored(factor: float, cause: str) -> None:
    case = Case("tanh", "float32", (tensor((3, 4, 5)),), cotangent=7, cotangent_layout="transposed")
    misread = judged(
        case, lambda args, _: InOrder.apply(torch.tanh(args[0]), factor), direction="backward"
    )
    assert misread.cause == cause
