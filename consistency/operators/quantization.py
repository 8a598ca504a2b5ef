"""Numbers rounded to those that a quantized tensor has, and back: fake quantization, with which
models are trained."""

from __future__ import annotations

from typing import Any

import torch

from .declare import FLOATS, ROUNDED, Call, Domain, Drawing, Operator, Sample, call
from .hooks import Args, Kwargs, Tensors
from .nonunique_results import argument, beside, neighbors

# What NaN becomes is not defined: it is made a whole number (C++20, 7.3.11).
NUMBERS = Domain(specials=("0", "-0", "inf", "-inf"), wide=(-24, 60), propagates=())
SCALES = Domain(2.0**-6, 2.0, propagates=())
_RANGES = (-128, 127), (0, 255), (-8, 7), (0, 15), (-32768, 32767)
_UNIT = 2.0**-24  # the scale is a float32 number in torch's kernels


def per_tensor(d: Drawing) -> Call:
    """One scale and one zero point, as numbers or as tensors of one element. Shrinks towards a
    scale of one half."""
    low, high = d.choice(*_RANGES)
    x = d.tensor(d.shape(0, 4), NUMBERS)
    if d.choice(False, False, True):
        scale: Any = d.tensor((1,), SCALES, dtype="float32", layout=False)
        values = ("integers", low, high)
        return call(x, scale, d.tensor((1,), dtype="int32", values=values, layout=False), low, high)
    scale = d.choice(0.5, 0.0625, 0.1, 0.0117, d.number(2.0**-6, 2.0))
    return call(x, scale, d.choice(d.integer(low, high), max(low, 0)), low, high)


def per_channel(d: Drawing) -> Call:
    """A scale and a zero point for each place of one dimension."""
    low, high = d.choice(*_RANGES)
    shape = d.shape(1, 4)
    axis = d.integer(0, len(shape) - 1)
    channels = (shape[axis],)
    scale = d.tensor(channels, SCALES, dtype="float32", layout=False)
    zeros = d.tensor(channels, dtype="int32", values=("integers", low, high), layout=False)
    return call(d.tensor(shape, NUMBERS), scale, zeros, axis, low, high)


def _arguments(args: Args, kwargs: Kwargs, channels: bool) -> tuple[torch.Tensor, Any, Any, Any]:
    """Quotient by the scale, scale, zero point and the ends of the range, shaped to broadcast."""
    x = args[0]
    scale, zero = (
        argument("scale", 1, None, args, kwargs),
        argument("zero_point", 2, 0, args, kwargs),
    )
    ends = [
        argument(name, position + channels, 0, args, kwargs)
        for position, name in ((3, "quant_min"), (4, "quant_max"))
    ]
    if channels:
        shape = [1] * x.ndim
        shape[argument("axis", 3, 0, args, kwargs)] = -1
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    elif isinstance(scale, torch.Tensor):
        scale, zero = scale.reshape(()), zero.reshape(())
    return x / scale, scale, zero, ends


def documented(channels: bool) -> Any:
    """The documented formula, of which the rounding passes the gradient on within the range."""

    def fake_quantize(*args: Any, **kwargs: Any) -> torch.Tensor:
        quotient, scale, zero, (low, high) = _arguments(args, kwargs, channels)
        position = torch.round(quotient.detach()) + zero
        result = (position.clamp(low, high) - zero) * scale
        kept = torch.where((position >= low) & (position <= high), args[0], 0.0)
        passed: torch.Tensor = result.detach() + (kept - kept.detach())
        return passed

    return fake_quantize


def other_roundings(channels: bool) -> Any:
    """One step below or above where the quotient is within rounding error of a half. Halves that a
    power of two divides are no such: every product is exact."""

    def alternatives(args: Args, kwargs: Kwargs, outputs: Tensors) -> list[Tensors]:
        quotient, scale, zero, (low, high) = _arguments(args, kwargs, channels)
        scale = torch.as_tensor(scale, dtype=torch.float64)
        exact = (torch.frexp(scale)[0] == 0.5) & (2.0 * quotient == torch.round(2.0 * quotient))
        near = beside(quotient, 0.5, _UNIT) & ~exact
        ends = (low - zero) * scale, (high - zero) * scale
        return [
            (torch.where(near, other.clamp(*map(torch.as_tensor, ends)), other),)
            for (other,) in neighbors(near, outputs[0], scale)
        ]

    return alternatives


def op(name: str, sample: Sample, channels: bool) -> Operator:
    return Operator(
        name=name,
        family="quantization",
        sample=sample,
        error=ROUNDED,
        dtypes=FLOATS,
        reference=documented(channels),
        alternatives=other_roundings(channels),
        differentiable_inputs=(0,),
        traits=frozenset({"discontinuous", "constant"}),
    )


OPERATORS = [
    op("fake_quantize_per_tensor_affine", per_tensor, False),
    op("fake_quantize_per_channel_affine", per_channel, True),
]
