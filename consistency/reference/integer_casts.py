"""Casts to integers: the admissible results for numbers outside the integer's range.

Integers wrap modulo 2ⁿ by definition. The cast of an out-of-range float, a NaN or an infinity is
undefined in C++, but only a few results occur: x86 gives the lowest integer (of 32 or 64 bits,
truncated to n), ARM and GPUs saturate (Triton in 16 bits, then truncated to 8), software floats
wrap, and shaders give 0 for NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

_TWO_32 = 2.0**32


@dataclass(frozen=True, slots=True)
class CastErrors:
    """Masks of the elements that are wrong, and of those that are right only on a backend that
    saturates."""

    wrong: torch.Tensor
    saturated: torch.Tensor
    kind: str  # of mismatch, as in Measured.special
    nothing_defined: bool = False  # no element has a defined answer


def judge_casts(x: torch.Tensor, actual: torch.Tensor, wanted: torch.Tensor) -> CastErrors | None:
    """Compare ``actual``, a cast of ``x`` to an integer dtype, with ``wanted``; None if this is not
    such a cast, or no element needs a special rule."""
    if actual.dtype == torch.bool or actual.is_floating_point() or x.shape != actual.shape:
        return None
    x = x.real if x.is_complex() else x  # of a complex number the real part is cast
    differs = torch.ne(actual, wanted)
    info = torch.iinfo(actual.dtype)
    if not x.is_floating_point():
        if not bool(differs.any()):
            return None
        # Clamped as int64, so that the limits of a wide dtype do not wrap in a narrow one.
        saturated = differs & (actual == x.to(torch.int64).clamp(info.min, info.max))
        return CastErrors(differs & ~saturated, saturated, "saturated")
    x = x.detach().to(torch.float64)
    beyond = (
        ~((x > info.min - 1.0) & (x < info.max + 1.0))
        if info.bits < 64
        else ~((x >= info.min) & (x < 2.0**63))
    )
    if not bool(beyond.any()):
        return None
    admitted = (
        (actual == _wrapped(x, actual.dtype)) | (actual == info.min) | (x.isnan() & (actual == 0))
    )
    if info.bits < 64:
        admitted |= actual == 0  # the lowest 64-bit integer truncated to n bits
    saturated = torch.where(x > 0.0, actual == info.max, (x < 0.0) & (actual == info.min))
    if info.bits < 32:
        # The highest integer of 32 bits, or of 16, cut to n bits.
        highest = 2.0**31 if info.bits == 16 else 2.0**15
        saturated |= (x >= highest) & (actual == torch.tensor(-1).to(actual.dtype))
    wrong = torch.where(beyond, ~(admitted | saturated), differs)
    return CastErrors(wrong, beyond & saturated & ~admitted, "saturated-float", bool(beyond.all()))


def _wrapped(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The integer part of ``x`` modulo 2ⁿ, exactly; 0 if ``x`` is not finite."""
    integral = torch.nan_to_num(x.trunc().fmod(2.0**64), nan=0.0, posinf=0.0, neginf=0.0)
    high = (integral / _TWO_32).floor()
    low = integral - high * _TWO_32
    return ((high.to(torch.int64) << 32) + low.to(torch.int64)).to(dtype)
