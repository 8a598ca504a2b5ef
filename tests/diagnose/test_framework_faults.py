"""Faults that compilers and other frameworks were reported to have, planted into the CPU: most
failing cases are given the right name."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.real_bugs import BUGS
from tests.real_bugs.play import handed
from tests.support.catalog.precision import to_bits

from .test_device_faults import Call, results


def factors_in_tf32(operator: Any, x: Any, y: Any, *rest: Any, **kwargs: Any) -> Any:
    return operator(to_bits(x, 11), to_bits(y, 11), *rest, **kwargs)


def rounded_scan(operator: Any, x: Any, dim: int, dtype: Any = None) -> Any:
    if not x.ndim or not x.numel() or dtype is not None:
        return operator(x, dim, dtype=dtype)
    rows = [x.select(dim, 0)]
    for row in x.unbind(dim)[1:]:
        rows.append(rows[-1] + row)
    return torch.stack(rows, dim)


def in_line(operator: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    view = operator(x, *args, **kwargs)
    whole = view.untyped_storage().nbytes() // view.element_size()
    line = view.as_strided((whole,), (1,), 0)[view.storage_offset() :]
    return line[: view.numel()].reshape(view.shape) if line.numel() >= view.numel() else view


def reversed_in_time(operator: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    dim = kwargs.get("dim", args[1] if len(args) > 1 else -1)
    return operator(x, *args, **kwargs).flip(dim).roll(1, dim)


def tile_of_zeros(operator: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    return operator(x, *args, **kwargs).clamp(min=0)


def pooled_with_zeros(operator: Any, x: Any, size: Any, **kwargs: Any) -> Any:
    padding, right = kwargs.get("padding", 0), operator(x, size, **kwargs)
    rows, *others = (padding,) if isinstance(padding, int) else padding
    columns = others[0] if others else rows
    if (not rows and not columns) or x.dtype != torch.float32:
        return right
    image = torch.nn.functional.pad(x, (columns, columns, rows, rows))
    wrong = operator(image, size, **{**kwargs, "padding": 0})
    pairs = zip(*(r if isinstance(r, tuple) else (r,) for r in (right, wrong)), strict=True)
    # With ceil_mode a last window begins in the padding here, which is none there.
    return wrong if all(a.shape == b.shape for a, b in pairs) else right


def largest_for_infinity(operator: Any, x: Any, dim: int) -> Any:
    values, indices = operator(x, dim)
    largest = torch.full_like(values, torch.finfo(x.dtype).max)
    return torch.where(values.isinf(), largest.copysign(values), values), indices


def squares_in_float16(
    operator: Any, x: Any, shape: Any, weight: Any = None, eps: Any = None
) -> Any:
    dims = list(range(x.ndim - len(shape), x.ndim))
    lost = (x.double() ** 2).sum(dims, keepdim=True) > 65504.0
    return torch.where(lost, torch.zeros_like(x), operator(x, shape, weight, eps))


def factor_in_float32(operator: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    return operator(x, *args, **kwargs) * (1.0 + 2.0**-26)


def never_training(operator: Any, x: Any, mean: Any, *args: Any, **kwargs: Any) -> Any:
    if mean is None:
        return operator(x, mean, *args, **kwargs)
    return operator(x, mean, *args, **{**kwargs, "training": False})


def quotients_of_32_bits(operator: Any, x: Any, y: Any) -> Any:
    if not isinstance(y, torch.Tensor) or x.dtype != torch.int64 or y.dtype != torch.int64:
        return operator(x, y)
    quotient = x.to(torch.int32).float() / y.to(torch.int32).float()
    return quotient.floor().nan_to_num(0.0, 0.0, 0.0).to(torch.int64)


FAULTS: list[tuple[str, Call, str, str, float]] = [
    ("nn.functional.linear", factors_in_tf32, "float32", "tf32-inputs", 0.7),
    ("cumsum", rounded_scan, "bfloat16", "bfloat16-accumulator", 0.7),
    ("diagonal", in_line, "float32", "strides-ignored", 0.6),
    ("fft.irfft", reversed_in_time, "complex64", "flipped", 0.6),
    ("amax", tile_of_zeros, "float32", "zero", 0.6),
    ("nn.functional.max_pool2d", pooled_with_zeros, "float32", "zero", 0.5),
    ("cummax", largest_for_infinity, "float32", "saturated", 0.6),
    ("nn.functional.rms_norm", squares_in_float16, "float16", "early-overflow", 0.6),
    ("fft.ifft", factor_in_float32, "complex128", "float32-instead-of-float64", 0.6),
    ("nn.functional.batch_norm", never_training, "float32", "argument-ignored", 0.5),
    ("floor_divide", quotients_of_32_bits, "int64", "int64-truncated", 0.3),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("operator", "fault", "dtype", "cause", "share"),
    FAULTS,
    ids=lambda v: getattr(v, "__name__", v),
)
def test_a_fault_of_frameworks_is_named(
    operator: str, fault: Call, dtype: str, cause: str, share: float
) -> None:
    many = 150 if "pool" in operator else 40  # few windows hold negative numbers and padding
    failing = [r for r in results(operator, fault, dtype, "forward", many) if r.verdict.fails]
    named = [r for r in failing if r.cause == cause]
    assert named
    assert len(named) >= share * len(failing), [
        (r.cause, r.explanation[:120]) for r in failing if r.cause != cause
    ][:5]


def test_a_sign_of_squares_that_overflow_is_named() -> None:
    """Numbers that large are met by shipped cases, not by every draw."""
    seen = handed(next(bug for bug in BUGS if bug.issue == "tensorflow/tensorflow#60656"))
    assert seen is not None
    assert not seen.accused
    assert seen.cause == "early-overflow"
