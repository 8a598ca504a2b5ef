"""Numbers rounded to fewer bits."""

from __future__ import annotations

import torch

from ...generate.materialize import Adjust


def rounded(tensor: torch.Tensor, bits: int, *, truncate: bool = False) -> torch.Tensor:
    """float64 numbers rounded to ``bits`` significand bits, to nearest even or toward zero, with
    unlimited exponent."""
    mantissa, exponent = torch.frexp(tensor)
    scaled = torch.ldexp(mantissa, torch.tensor(bits))
    result = torch.ldexp(scaled.trunc() if truncate else scaled.round(), exponent - bits)
    return torch.where(torch.isfinite(tensor), result, tensor)


def part_by_part(change: Adjust) -> Adjust:
    """``change`` of real numbers, for complex ones of their real and imaginary parts."""

    def changed(base: torch.Tensor, position: int) -> torch.Tensor:
        if not base.is_complex():
            return change(base, position)
        parts = torch.view_as_real(base.resolve_conj())
        return torch.view_as_complex(change(parts, position).contiguous())

    return changed


def to_bfloat16_and_back(base: torch.Tensor) -> torch.Tensor:
    return base.to(torch.bfloat16).to(base.dtype)


def truncated_to_float32(tensor: torch.Tensor) -> torch.Tensor:
    """float64 numbers truncated toward zero to float32's: also among subnormal numbers, which have
    fewer digits, and to the largest number instead of infinity."""
    nearest = tensor.to(torch.float32)
    smaller = torch.nextafter(nearest, torch.zeros_like(nearest))
    grew = nearest.to(torch.float64).abs() > tensor.abs()
    return torch.where(grew, smaller, nearest).to(torch.float64)
