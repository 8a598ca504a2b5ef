"""Planters of what comes back: wrong numbers in some place, special values lost, wrong structure,
gradients changed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .model import Call, Deed, deep, one_of, straight

Change = Callable[[Tensor], Tensor]


def after(change: Change, which: int = 0) -> Deed:
    """Torch's result, with one output changed; gradients stay right."""
    return lambda call: one_of(
        call.run(), lambda result: straight(result, change(result.detach())), which
    )


def flat(change: Callable[[Tensor], None]) -> Change:
    """A change of a contiguous flat copy in place."""

    def changed(x: Tensor) -> Tensor:
        y = x.clone(memory_format=torch.contiguous_format).reshape(-1)
        if y.numel():
            change(y)
        return y.reshape(x.shape)

    return changed


def element(place: float, factor: float) -> Change:
    """One element times ``factor``; ``place`` runs from 0 (the first) to 1 (the last)."""

    def change(y: Tensor) -> None:
        y[round(place * (y.numel() - 1))] *= factor

    return flat(change)


def tail(lanes: int, factor: float) -> Change:
    """The last n mod ``lanes`` elements times ``factor``: scalar code behind a vector body."""

    def change(y: Tensor) -> None:
        y[y.numel() - y.numel() % lanes :] *= factor

    return flat(change)


def body(lanes: int, bits: int) -> Change:
    """The elements before the last n mod ``lanes`` keep ``bits`` significant bits."""
    from .precision import to_bits

    def change(y: Tensor) -> None:
        end = y.numel() - y.numel() % lanes
        y[:end] = to_bits(y[:end], bits)

    return flat(change)


def tail_untouched(lanes: int) -> Change:
    """The last n mod ``lanes`` elements are never written, where there is a body."""

    def change(y: Tensor) -> None:
        if y.numel() > lanes:
            y[y.numel() - y.numel() % lanes :] = 0

    return flat(change)


def tile(size: int, bits: int) -> Change:
    """In the second block of ``size`` elements of each row only ``bits`` significant bits."""
    from .precision import to_bits

    def change(x: Tensor) -> Tensor:
        y = x.clone()
        if y.ndim:
            y[..., size : 2 * size] = to_bits(y[..., size : 2 * size], bits)
        return y

    return change


def scaled(factor: float) -> Change:
    return lambda x: x * factor


def added(term: float) -> Change:
    return lambda x: x + term


def zeroed(x: Tensor) -> Tensor:
    return torch.zeros_like(x)


def negated(x: Tensor) -> Tensor:
    return -x


def rolled(x: Tensor) -> Tensor:
    """Every number one position further."""
    return x.reshape(-1).roll(1).reshape(x.shape)


def rolled_along(dim: int) -> Change:
    return lambda x: x.roll(1, dim) if x.ndim else x


def flipped(x: Tensor) -> Tensor:
    return x.flip(-1) if x.ndim else x


def transposed(x: Tensor) -> Tensor:
    """The last two dimensions changed, the shape kept: right for squares only in shape."""
    return x.mT.reshape(x.shape) if x.ndim > 1 else x


def truncated(x: Tensor) -> Tensor:
    """The shape that depends on the numbers comes out one short."""
    return x[:-1] if x.ndim and x.shape[0] else x


def nan_dropped(x: Tensor) -> Tensor:
    return torch.where(x.isnan(), torch.zeros_like(x), x)


def overflowing(limit: float) -> Change:
    """Infinity beyond ``limit``, which is well within the format."""
    return lambda x: torch.where(
        x.abs() > limit, torch.copysign(torch.full_like(x, math.inf), x), x
    )


def saturated(limit: float) -> Change:
    """Clamped at ``limit``, infinities too."""
    return lambda x: torch.where(x.isnan(), x, x.clamp(-limit, limit))


def subnormals_flushed(x: Tensor) -> Tensor:
    """Zero, with its sign, in place of every subnormal number."""
    return (
        torch.where(x.abs() < torch.finfo(x.dtype).tiny, x * 0.0, x) if x.is_floating_point() else x
    )


def flushing(call: Call) -> Any:
    """Subnormal inputs read as zero, and subnormal results are written as zero."""
    through = call.each(lambda x: straight(x, subnormals_flushed(x.detach())))
    return deep(through.run(), lambda x: straight(x, subnormals_flushed(x.detach())))


def sign_of_zero_lost(x: Tensor) -> Tensor:
    return torch.where(x == 0, torch.zeros_like(x), x)


def true(x: Tensor) -> Tensor:
    return torch.ones_like(x)


def large_batch(change: Change, least: int = 3) -> Change:
    """Wrong only from batches of ``least``: the rows behind are changed."""

    def changed(x: Tensor) -> Tensor:
        if not x.ndim or x.shape[0] < least:
            return x
        return torch.cat([x[: least - 1], change(x[least - 1 :])])

    return changed


def with_wrong_shape(call: Call) -> Any:
    return one_of(call.run(), lambda x: x.unsqueeze(0))


def with_wrong_dtype(call: Call) -> Any:
    return one_of(
        call.run(), lambda x: x.to(torch.float64 if x.dtype == torch.float32 else torch.float32)
    )


# Gradients


def gradient(change: Change, positions: tuple[int, ...] | None = None) -> Deed:
    """The gradients of all inputs, or of the arguments at ``positions``, are changed on their way
    out."""

    def tapped(x: Tensor) -> Tensor:
        if not x.requires_grad:
            return x
        y = x.view_as(x)
        y.register_hook(change)
        return y

    return lambda call: (call.where(tapped, positions) if call.tracked else call).run()


def gradient_missing(positions: tuple[int, ...] | None = None) -> Deed:
    """No gradient at all for the arguments at ``positions`` (None: for any)."""
    return lambda call: call.where(lambda x: x.detach() if x.requires_grad else x, positions).run()


class _WrongShape(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return (
            gradients[0]
            .sum()
            .reshape(1, *[1] * gradients[0].ndim)
            .repeat(2, *[1] * gradients[0].ndim)
        )


def gradient_of_wrong_shape(position: int) -> Deed:
    """A gradient that is not shaped as its input is."""

    def deed(call: Call) -> Any:
        x = call.args[position] if len(call.args) > position else None
        if not isinstance(x, Tensor) or not x.requires_grad:
            return call.run()
        return call.with_arg(position, _WrongShape.apply(x)).run()

    return deed


def gradient_where(
    condition: Callable[[Call], bool], change: Change, positions: tuple[int, ...] | None = None
) -> Deed:
    """A wrong gradient only for calls that meet ``condition``."""
    wrong = gradient(change, positions)
    return lambda call: wrong(call) if condition(call) else call.run()


def gradient_accumulated() -> Deed:
    """From the second call on, gradients come on top of what the call before left, where the shapes
    agree in length."""
    left: list[Tensor] = []

    def change(x: Tensor) -> Tensor:
        old = left.pop() if left else None
        left.append(x.detach().reshape(-1).clone())
        if old is None or old.numel() < x.numel():
            return x
        return x + old[: x.numel()].reshape(x.shape).to(x.dtype)

    return gradient(change)
