"""Planters and sound ways of computing that differ in precision: rounded inputs, other
accumulators, other formats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .model import Call, Deed, straight

FACTORED = (
    "matmul", "mm", "bmm", "mv", "dot", "vdot", "nn.functional.linear", "nn.functional.conv2d",
)  # fmt: skip
Round = Callable[[Tensor], Tensor]
WIDER = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.float64: torch.float64,
}


def to_bits(x: Tensor, bits: int) -> Tensor:
    """Floating numbers to ``bits`` significant ones, ties to even; the gradient passes straight
    through."""
    if not x.is_floating_point():
        return x
    mantissa, exponent = torch.frexp(x.detach().double())
    near = torch.ldexp(torch.round(mantissa * 2.0**bits), (exponent - bits).double())
    return straight(x, torch.where(torch.isfinite(x), near, x.detach().double()).to(x.dtype))


def rounding_inputs(bits: int, positions: Sequence[int] | None = None) -> Deed:
    """Float32 inputs keep ``bits`` significant bits: 11 for TF32 and float16, 8 for bfloat16. Other
    dtypes are left alone."""
    return lambda call: call.where(
        lambda x: to_bits(x, bits) if x.dtype == torch.float32 else x, positions
    ).run()


def in_float16_range(positions: Sequence[int] | None = None) -> Deed:
    """Float32 inputs are converted to float16: 11 bits, and nothing beyond 65,504 or below 6e-8."""
    return lambda call: call.where(
        lambda x: straight(x, x.detach().half().float()) if x.dtype == torch.float32 else x,
        positions,
    ).run()


def three_products(call: Call) -> Any:
    """Each of two factors is split in two bfloat16 numbers, and the product of the small parts left
    out."""
    a, b, *rest = call.args
    if a.dtype != torch.float32:
        return call.run()
    high_a, high_b = to_bits(a, 8), to_bits(b, 8)
    low_a, low_b = to_bits(a - high_a.detach(), 8), to_bits(b - high_b.detach(), 8)
    total = call.operator(high_a, high_b, *rest, **call.kwargs)
    for left, right in ((high_a, low_b), (low_a, high_b)):
        total = total + call.operator(left, right, **call.kwargs)
    return total


def computed_in(dtype: torch.dtype) -> Deed:
    """Everything floating is converted to ``dtype`` first, and the results back."""

    def deed(call: Call) -> Any:
        own = result_dtype(call)
        result = call.each(lambda x: x.to(dtype) if x.is_floating_point() else x).run()
        return _back(result, dtype, call.kwargs.get("dtype", own))

    return deed


def computed_wider(call: Call) -> Any:
    """In the next wider format, rounded once."""
    return computed_in(WIDER[result_dtype(call)])(call)


def result_dtype(call: Call) -> torch.dtype:
    """The format of the plain call's result, which is run where its tensors' formats differ."""
    formats = {t.dtype for t in _floats(call)}
    if len(formats) < 2:
        return next(iter(formats), torch.float32)
    plain = call.run()
    first = plain[0] if isinstance(plain, (tuple, list)) else plain
    return first.dtype if isinstance(first, Tensor) else torch.float32


def _floats(call: Call) -> list[Tensor]:
    found: list[Tensor] = []
    call.each(lambda x: found.append(x) or x if x.is_floating_point() else x)  # type: ignore[func-returns-value]
    return found


def _back(result: Any, wide: torch.dtype, own: torch.dtype) -> Any:
    if isinstance(result, Tensor):
        if result.is_complex():
            return result.to(torch.complex128 if own == torch.float64 else torch.complex64)
        return result.to(own) if result.dtype == wide else result
    if isinstance(result, (tuple, list)):
        return tuple(_back(item, wide, own) for item in result)
    return result


def nearest(dtype: torch.dtype) -> Round:
    """Rounds float64 numbers to ``dtype``, and returns them in float64."""
    return lambda x: x.to(dtype).double()


def toward_zero(x: Tensor) -> Tensor:
    """Float64 numbers truncated to float32, in float64."""
    single = x.float()
    inward = single.nextafter(torch.zeros_like(single))
    return torch.where(single.double().abs() > x.abs(), inward, single).double()


def factors(call: Call) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]] | None:
    """A product's operands as (…, m, k) and (…, k, n) in float64, and how to finish; None where
    this does not know how."""
    name = call.operator.name
    if name not in FACTORED:
        return None
    a, b = call.args[:2]
    if name == "nn.functional.conv2d" and a.ndim == 4 and call.kwargs.get("groups", 1) == 1:
        return _columns(call, a.double(), b.double())
    a, b = a.detach().double(), b.detach().double()
    if name in ("matmul", "mm", "bmm", "mv", "dot", "vdot") and a.ndim and b.ndim:
        left, right = (a if a.ndim > 1 else a.unsqueeze(0)), (b if b.ndim > 1 else b.unsqueeze(1))
        rows, columns = a.ndim == 1, b.ndim == 1

        def finish(c: Tensor) -> Tensor:
            c = c.squeeze(-1) if columns else c
            return c.squeeze(-1 if columns else -2) if rows else c

        return left, right, finish
    if name == "nn.functional.linear":
        bias = call.given("bias", 2, None)
        return (
            a.unsqueeze(-2),
            b.T,
            lambda c: c.squeeze(-2) + (0.0 if bias is None else bias.detach().double()),
        )
    return None


def _columns(
    call: Call, x: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]] | None:
    """A convolution of one group as a product (im2col); not for padding that is named."""
    options = call.kwargs
    padding = 0 if options.get("padding", 0) == "valid" else options.get("padding", 0)
    plain, bias = call.run(), call.given("bias", 2, None)
    if isinstance(padding, str) or not plain.numel() or not weight.numel():
        return None
    windows = F.unfold(
        x, weight.shape[2:], options.get("dilation", 1), padding, options.get("stride", 1)
    )

    def finish(c: Tensor) -> Tensor:
        c = c.reshape(plain.shape)
        return c if bias is None else c + bias.detach().double().reshape(-1, 1, 1)

    return weight.flatten(1), windows, finish


def reduction(call: Call) -> tuple[Tensor, float, torch.Size] | None:
    """What ``sum`` or ``mean`` adds up, the terms first and in float64, with the divisor and the
    result's shape."""
    if (
        call.operator.name not in ("sum", "mean", "nansum")
        or "dtype" in call.kwargs
        or not call.args[0].is_floating_point()
    ):
        return None
    x = call.args[0].detach().double()
    dims = call.given("dim", 1, None)
    dims = [dims] if isinstance(dims, int) else list(dims or range(x.ndim))
    if not x.ndim or not x.numel():
        return None
    terms = x.movedim(dims, list(range(len(dims)))).flatten(0, len(dims) - 1)
    terms = (
        terms.nan_to_num(nan=0.0, posinf=math.inf, neginf=-math.inf)
        if call.operator.name == "nansum"
        else terms
    )
    shape = call.run().shape
    return terms, float(terms.shape[0]) if call.operator.name == "mean" else 1.0, shape


def accumulating(round_to: Round, block: int = 8, order: str = "forward") -> Deed:
    """Sums in blocks: each block in float64, every partial sum rounded by ``round_to``. ``order``
    may be ``backward``."""

    def total(parts: list[Tensor]) -> Tensor:
        if order == "backward":
            parts = parts[::-1]
        while order == "pairwise" and len(parts) > 1:
            parts = [round_to(sum(parts[i + 1 : i + 2], parts[i])) for i in range(0, len(parts), 2)]
        result = round_to(parts[0])
        for part in parts[1:]:
            result = round_to(result + part)
        return result

    def deed(call: Call) -> Any:
        result = call.run()
        found = factors(call)
        if found is not None and found[0].shape[-1]:
            a, b, finish = found
            parts = [
                a[..., i : i + block] @ b[..., i : i + block, :]
                for i in range(0, a.shape[-1], block)
            ]
            made = finish(total(parts))
        else:
            terms = reduction(call) if found is None else None
            if terms is None:
                return result
            made = total([part.sum(0) for part in terms[0].split(block)]) / terms[1]
            made = made.reshape(terms[2])
        return straight(result, made.reshape(result.shape).to(result.dtype))

    return deed


def tail_dropped(multiple: int) -> Deed:
    """The last n mod ``multiple`` terms of a sum, product or choice are left out where there are
    more than ``multiple``."""

    def shorter(x: Tensor, dim: int) -> Tensor:
        n = x.shape[dim] if x.ndim else 0
        return x.narrow(dim, 0, n - n % multiple) if n > multiple else x

    def deed(call: Call) -> Any:
        a = call.args[0]
        if len(call.args) > 1 and isinstance(call.args[1], Tensor):
            b = call.args[1]
            inner = -1 if call.operator.name == "nn.functional.linear" or b.ndim == 1 else -2
            return call.with_arg(0, shorter(a, -1)).with_arg(1, shorter(b, inner)).run()
        dim = call.given("dim", 1, None)
        if dim is None or dim in ([], ()):
            return call.with_arg(0, shorter(a.reshape(-1), 0)).run()
        return call.with_arg(0, shorter(a, dim if isinstance(dim, int) else dim[-1])).run()

    return deed
