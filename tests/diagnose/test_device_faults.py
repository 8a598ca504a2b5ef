"""Faults that real devices were seen to have, planted into the CPU: each is named, and the CPU
itself is not accused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch

import consistency
from consistency import operators
from consistency.core.model import Result
from tests.support.running import unshrunk

Call = Callable[..., Any]


class Faulty(consistency.Backend):
    """The CPU, but for one function."""

    name = "faulty"

    def __init__(self, fault: Call | None) -> None:
        self.fault = fault

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return (
            super().call(operator, args, kwargs)
            if self.fault is None
            else self.fault(operator, *args, **kwargs)
        )


def results(
    operator: str, fault: Call | None, dtype: str, direction: str, examples: int = 40
) -> list[Result]:
    run = unshrunk(
        [operator],
        ["cpu", Faulty(fault)],
        [dtype],
        [direction],
        examples=examples,
        tolerances=None,
        reference="float64",
        exhaustive=False,
    )
    return [r for r in run.results if r.backend == "faulty" and r.case.operator == operator]


def last_wins(operator: Any, x: Any, dim: Any, index: Any, source: Any, **more: Any) -> Any:
    source = source[tuple(slice(n) for n in index.shape)]
    return x.scatter(dim, index, x.gather(dim, index) + source)


def first_wins(operator: Any, x: Any, dim: Any, index: Any, source: Any, **more: Any) -> Any:
    added = x.gather(dim, index) + source[tuple(slice(n) for n in index.shape)]
    return (
        x.scatter(dim, index.flip(dim), added.flip(dim))
        if index.ndim
        else x.scatter(dim, index, added)
    )


def rows_once(
    operator: Any, x: Any, dim: Any, index: Any, source: Any, alpha: Any = 1, **more: Any
) -> Any:
    return x.index_copy(dim, index.long(), x.index_select(dim, index) + alpha * source)


class GatherOnce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, dim: int, index: Any) -> Any:
        ctx.save_for_backward(index)
        ctx.dim, ctx.shape = dim, x.shape
        return x.gather(dim, index)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # type: ignore[override]
        return (
            torch.zeros(ctx.shape, dtype=gradient.dtype).scatter(
                ctx.dim, ctx.saved_tensors[0], gradient
            ),
            None,
            None,
        )


def gathered(operator: Any, x: Any, dim: Any, index: Any, **more: Any) -> Any:
    return GatherOnce.apply(x, dim, index)


def biased(operator: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    result = operator(x, *args, **kwargs)
    n = x.numel() / max(result.numel(), 1)
    correction = kwargs.get("correction", 1 if kwargs.get("unbiased", True) else 0)
    power = 0.5 if operator.name == "std" else 1.0
    return (
        result * (max(n - (1 if correction is None else correction), 0) / n) ** power
        if n
        else result
    )


def lost(operator: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    return operator(x.clone(), *args, **kwargs)


def lost_in_views(operator: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    return operator(x.clone() if x.storage_offset() else x, *args, **kwargs)


def unsigned_zeros(operator: Any, *args: Any, **kwargs: Any) -> Any:
    return operator(
        *(a + 0.0 if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args),
        **kwargs,
    )


def in_single(operator: Any, *args: Any, **kwargs: Any) -> Any:
    single = [a.to(torch.float32) if isinstance(a, torch.Tensor) else a for a in args]
    return operator(*single, **kwargs).to(args[0].dtype)


def unpadded(operator: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    result = operator(x, *args, **kwargs).clone()
    added = kwargs.get("output_padding", 0)
    count = added if isinstance(added, int) else added[-1]
    if count:
        result[..., result.shape[-1] - count :] = 0.0
    return result


def by_formula(formula: Call) -> Call:
    def run(operator: Any, x: Any, **kwargs: Any) -> Any:
        return formula(x) if x.dtype.is_floating_point else operator(x, **kwargs)

    run.__name__ = f"by_formula_{formula.__name__}"
    return run


def log_of_sum(x: Any) -> Any:
    return torch.log(1.0 + x)


def exp_minus_one(x: Any) -> Any:
    return torch.exp(x) - 1.0


def one_minus_erf(x: Any) -> Any:
    return 1.0 - torch.erf(x)


def min_wins(operator: Any, x: Any, min: Any = None, max: Any = None, **kwargs: Any) -> Any:
    if min is None or max is None:
        return operator(x, min, max, **kwargs)
    low, high = (torch.as_tensor(bound, dtype=x.dtype) for bound in (min, max))
    return torch.maximum(torch.minimum(x, high), low)


def cast_toward_zero(operator: Any, x: Any, **kwargs: Any) -> Any:
    y = operator(x, **kwargs)
    if not x.dtype.is_floating_point or y.dtype != torch.float16:
        return y
    farther = y.to(torch.float64).abs() > x.to(torch.float64).abs()
    return torch.where(farther, (y.view(torch.int16) - 1).view(torch.float16), y)


def by_product(operator: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    return x * operator(torch.ones_like(x), *args, **kwargs)


def toward_zero(values: torch.Tensor) -> torch.Tensor:
    """float64 to float16, cut; independent of the package's own function."""
    nearest = values.to(torch.float16)
    farther = nearest.to(torch.float64).abs() > values.abs()
    return torch.where(farther, (nearest.view(torch.int16) - 1).view(torch.float16), nearest)


def cut_silu(operator: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    wide = x.to(torch.float64)
    return toward_zero(wide * toward_zero(torch.sigmoid(wide)).to(torch.float64))


def cut_reciprocal_first(operator: Any, x: Any, y: Any, **kwargs: Any) -> Any:
    inverse = toward_zero(torch.reciprocal(x.to(torch.float64))).to(torch.float64)
    return toward_zero(inverse * y)


def by_difference(operator: Any, x: Any, limit: Any, value: Any) -> Any:
    return (x > limit).to(x.dtype) * (x - value) + value


def early_corner(operator: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    rows, columns = x.shape[-2:]
    diagonals = torch.arange(columns) - torch.arange(rows).unsqueeze(1)
    return torch.where(diagonals >= max(2, columns // 2), x, operator(x, *args, **kwargs))


def signed_halves(operator: Any, x: Any, y: Any) -> Any:
    if torch.result_type(x, y) != torch.int64:
        return operator(x, y)
    return operator(x ^ (1 << 31), y ^ (1 << 31))


def one_point(operator: Any, theta: Any, size: Any, align_corners: Any = None) -> Any:
    grid = operator(theta, size, align_corners)
    first = grid.reshape(grid.shape[0], -1, grid.shape[-1])[:, :1]
    return first.expand(grid.shape[0], grid[0, ..., 0].numel(), -1).reshape(grid.shape)


class SortUnmoved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, kwargs: Any) -> Any:
        return torch.sort(x, **kwargs).values

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # type: ignore[override]
        return gradient, None


def unmoved(operator: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    indices = torch.sort(x.detach(), *args, **kwargs).indices
    return SortUnmoved.apply(x, kwargs), indices


class SlopeOfOne(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, slope: float) -> Any:
        ctx.save_for_backward(x)
        ctx.slope = slope
        return torch.nn.functional.leaky_relu(x, slope)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # type: ignore[override]
        return torch.where(ctx.saved_tensors[0] < 0.0, ctx.slope, 1.0) * gradient, None


def open_kink(operator: Any, x: Any, negative_slope: float = 0.01) -> Any:
    return SlopeOfOne.apply(x, negative_slope)


class SquareLayout(torch.autograd.Function):
    """hardswish whose gradient is written one after the other and read with the strides of x."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.nn.functional.hardswish(x)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # type: ignore[override]
        x = ctx.saved_tensors[0]
        flat = torch.ops.aten.hardswish_backward(gradient, x).contiguous().reshape(-1)
        last = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
        memory = torch.zeros(max(flat.numel(), last + 1), dtype=flat.dtype)
        memory[: flat.numel()] = flat
        return memory.as_strided(x.shape, x.stride(), 0).clone()


def in_memory_order(operator: Any, x: Any) -> Any:
    return SquareLayout.apply(x)


def sixth(operator: Any, x: Any) -> Any:
    return x * (x * (1.0 / 6.0) + 0.5).clamp(0.0, 1.0)


class OneCotangent(torch.autograd.Function):
    """neg, whose gradient is made of the first cotangent."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return -x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # type: ignore[override]
        return -gradient.reshape(-1)[:1].expand(gradient.numel()).reshape(gradient.shape)


def first_cotangent(operator: Any, x: Any) -> Any:
    return OneCotangent.apply(x)


FAULTS: list[tuple[str, Call, str, str, str, float]] = [
    ("scatter_add", last_wins, "float32", "forward", "duplicates-dropped", 0.7),
    ("scatter_add", first_wins, "float32", "forward", "duplicates-dropped", 0.7),
    ("index_add", rows_once, "float32", "forward", "duplicates-dropped", 0.7),
    ("gather", gathered, "float32", "backward", "duplicates-dropped", 0.7),
    ("var", biased, "float32", "forward", "biased-variance", 0.7),
    ("std", biased, "float32", "forward", "biased-variance", 0.7),
    ("fill_", lost, "float32", "forward", "lost-write", 0.9),
    ("mul_", lost_in_views, "float32", "forward", "lost-write", 0.9),
    ("add_", lost, "int64", "forward", "lost-write", 0.8),
    ("__setitem__", lost, "float32", "forward", "lost-write", 0.8),
    ("mul", in_single, "int64", "forward", "float32-integers", 0.5),
    ("reciprocal", unsigned_zeros, "float32", "forward", "zero-sign-lost", 0.0),
    ("log1p", by_formula(log_of_sum), "float32", "forward", "evaluated-otherwise", 0.6),
    ("expm1", by_formula(exp_minus_one), "float32", "forward", "evaluated-otherwise", 0.6),
    ("erfc", by_formula(one_minus_erf), "float32", "forward", "evaluated-otherwise", 0.6),
    ("nn.functional.hardswish", sixth, "float32", "forward", "evaluated-otherwise", 0.6),
    ("neg", first_cotangent, "float32", "backward", "first-everywhere", 0.6),
    ("clamp", min_wins, "float32", "forward", "crossed-bounds", 0.6),
    ("half", cast_toward_zero, "float32", "forward", "rounded-toward-zero", 0.6),
    ("tril", by_product, "float32", "forward", "masked-by-product", 0.4),
    ("tril", early_corner, "float32", "forward", "mask-incomplete", 0.6),
    ("nn.functional.silu", cut_silu, "float16", "forward", "rounded-toward-zero", 0.6),
    ("__rdiv__", cut_reciprocal_first, "float16", "forward", "rounded-toward-zero", 0.6),
    ("nn.functional.threshold", by_difference, "float32", "forward", "evaluated-otherwise", 0.6),
    ("gt", signed_halves, "int64", "forward", "int64-truncated", 0.6),
    ("nn.functional.affine_grid", one_point, "float32", "forward", "first-everywhere", 0.7),
    ("sort", unmoved, "float32", "backward", "indices-ignored", 0.6),
    ("nn.functional.leaky_relu", open_kink, "float32", "backward", "other-side", 0.6),
    ("nn.functional.hardswish", in_memory_order, "float32", "backward", "strides-ignored", 0.6),
    ("nn.functional.conv_transpose1d", unpadded, "float32", "forward", "output-padding-zero", 0.0),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("operator", "fault", "dtype", "direction", "cause", "share"),
    FAULTS,
    ids=lambda v: getattr(v, "__name__", v),
)
def test_a_fault_of_real_devices_is_named(
    operator: str, fault: Call, dtype: str, direction: str, cause: str, share: float
) -> None:
    failing = [r for r in results(operator, fault, dtype, direction) if r.verdict.fails]
    named = [r for r in failing if r.cause == cause]
    assert named
    assert len(named) >= share * len(failing), [
        (r.cause, r.explanation[:120]) for r in failing if r.cause != cause
    ][:5]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("operator", "dtype", "direction"), sorted({(f[0], f[2], f[3]) for f in FAULTS})
)
def test_the_cpu_is_not_accused(operator: str, dtype: str, direction: str) -> None:
    assert [
        r.explanation for r in results(operator, None, dtype, direction) if r.verdict.fails
    ] == []


@pytest.mark.parametrize("operator", ["bincount", "nn.functional.one_hot"])
def test_numbers_that_say_how_large_the_result_is_are_not_changed(
    operator: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another sign of its low half an index asks for 16 GB of results."""
    largest = 0

    def wrong(called: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        return called(x, *args, **kwargs) * 3 + 1

    declared = operators.get(operator)
    original = declared.callable
    assert original is not None

    def watched(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        nonlocal largest
        largest = max(largest, int(x.max()) if x.numel() and x.dtype == torch.int64 else 0)
        return original(x, *args, **kwargs)

    monkeypatch.setitem(vars(declared), "callable", watched)
    found = results(operator, wrong, "int64", "forward")
    assert any(r.verdict.fails for r in found)
    assert 0 < largest < 1 << 31
