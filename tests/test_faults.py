"""Faulty backends are caught, with the right verdict; healthy ones that compute in another way are left in peace.

All through the public interface, as a stranger would: a subclass of ``consistency.Backend`` that overrides ``call``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import consistency
from consistency import engine
from consistency.model import Result

Run = Callable[[Sequence[Any], Mapping[str, Any]], Any]
Deed = Callable[[str, Run, list[Any], dict[str, Any]], Any]


class Other(consistency.Backend):
    """The CPU, with a ``deed(operator, run, args, kwargs)`` of its own around torch's result."""

    def __init__(self, name: str, deed: Deed) -> None:
        self.name, self.deed = name, deed

    def call(self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self.deed(operator.name, functools.partial(super().call, operator), list(args), dict(kwargs))


# Healthy: other ways to the same result.


def plain(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return run(args, kwargs)


def in_float64(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    wide = [a.double() if isinstance(a, Tensor) else a for a in args]
    return run(wide, kwargs).to(kwargs.get("dtype") or args[0].dtype)


def in_another_order(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The terms of every sum the other way round."""
    x, *rest = args
    match operator:
        case "matmul":
            return run([x.flip(-1), rest[0].flip(-2 if rest[0].ndim > 1 else -1)], kwargs)
        case "sum":
            dims = kwargs.get("dim", rest[0] if rest else None)
            dims = [dims] if isinstance(dims, int) else list(dims or range(x.ndim))
            return run([x.flip(dims) if x.ndim else x, *rest], kwargs)
        case "softmax":
            return run([x.flip(rest[0]), *rest], kwargs).flip(rest[0]) if x.ndim else run(args, kwargs)
        case "nn.functional.layer_norm":
            dims = [-1 - i for i in range(len(rest[0]))]
            affine = [t if t is None else t.flip(dims) for t in rest[1:]]
            return run([x.flip(dims), rest[0], *affine], kwargs).flip(dims)
        case "nn.functional.conv2d" if kwargs.get("groups", 1) == 1:
            return run([x.flip(-3), rest[0].flip(1), *rest[1:]], kwargs)
    return run(args, kwargs)


def one_after_another(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Sums without blocks or trees, as a simple loop computes them."""
    if operator == "matmul":
        a, b = (args[0].unsqueeze(0) if args[0].ndim == 1 else args[0]), (args[1].unsqueeze(1) if args[1].ndim == 1 else args[1])
        total = (a.unsqueeze(-1) * b.unsqueeze(-3)).cumsum(-2)[..., -1, :]
        total = total.squeeze(-1) if args[1].ndim == 1 else total
        return total.squeeze(-1 if args[1].ndim == 1 else -2) if args[0].ndim == 1 else total
    if operator == "sum" and len(args) == 1 and not kwargs and args[0].numel():
        return args[0].reshape(-1).cumsum(0)[-1]
    return run(args, kwargs)


# Faulty.


class Straight(torch.autograd.Function):
    """Other numbers going forward, the same gradient going back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        return y.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


def ten_bits(x: Any) -> Any:
    """Rounded to the ten bits that TF32 keeps."""
    if not isinstance(x, Tensor) or x.dtype != torch.float32:
        return x
    bits = x.detach().contiguous().view(torch.int32)
    rounded = ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)
    return Straight.apply(x, torch.where(x.isfinite(), rounded, x))


def toward_zero(x: Tensor) -> Tensor:
    """A float64 tensor as float32, truncated."""
    single = x.float()
    return torch.where(single.double().abs() > x.abs(), single.nextafter(torch.zeros_like(single)), single)


def truncating(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Every partial sum is truncated rather than rounded."""
    if operator == "matmul":
        a, b = args[0].double(), args[1].double()
        a, b = (a.unsqueeze(0) if a.ndim == 1 else a), (b.unsqueeze(1) if b.ndim == 1 else b)
        terms = (a.unsqueeze(-1) * b.unsqueeze(-3)).movedim(-2, 0)
    elif operator == "sum" and len(args) == 1 and not kwargs:
        terms = args[0].reshape(-1).double()
    else:
        return run(args, kwargs)
    total = torch.zeros(terms.shape[1:])
    for term in terms:
        total = toward_zero(total.double() + term)
    return Straight.apply(result, total.reshape(result.shape)) if (result := run(args, kwargs)).requires_grad else total.reshape(result.shape)


def one_element_off(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    result = run(args, kwargs)
    factor = torch.ones_like(result)
    factor.view(-1)[result.numel() // 2 : result.numel() // 2 + 1] = 1.001
    return result * factor


def without_offset(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return run([a.as_strided(a.shape, a.stride(), 0) if isinstance(a, Tensor) else a for a in args], kwargs)


def without_strides(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Every tensor read as if it were contiguous, where its storage is long enough."""

    def read(a: Any) -> Any:
        if not isinstance(a, Tensor) or a.storage_offset() + a.numel() > a.untyped_storage().nbytes() // a.element_size():
            return a
        return a.as_strided(a.shape, torch.empty(a.shape, device="meta").stride(), a.storage_offset())

    return run([read(a) for a in args], kwargs)


def writing_to_its_input(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    result = run(args, kwargs).clone()
    args[0].detach().mul_(2).add_(1)
    return result


def without_nan(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    result = run(args, kwargs)
    return torch.where(result.isnan(), torch.zeros_like(result), result)


def refusing(operator: str, run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    raise RuntimeError("device lost its way")


class ZeroGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return torch.zeros_like(gradients[0])


def after(change: Callable[[Tensor], Any]) -> Deed:
    """A fault in what comes back."""
    return lambda operator, run, args, kwargs: change(run(args, kwargs))


HEALTHY: dict[str, Deed] = {
    "plain": plain,
    "in float64": in_float64,
    "in another order": in_another_order,
    "one after another": one_after_another,
}
FAULTY: dict[str, Deed] = {
    "TF32 inputs": lambda operator, run, args, kwargs: run([ten_bits(a) for a in args], kwargs),
    "truncating": truncating,
    "one element off": one_element_off,
    "without offset": without_offset,
    "without strides": without_strides,
    "writing to its input": writing_to_its_input,
    "wrong shape": after(lambda result: result.unsqueeze(0)),
    "wrong dtype": after(lambda result: result.to(torch.float64 if result.dtype == torch.float32 else torch.float32)),
    "nothing": after(lambda result: None),
    "raising": refusing,
    "without NaN": without_nan,
    "zero gradient": after(ZeroGradient.apply),
    "no gradient": after(lambda result: result.detach()),
}
