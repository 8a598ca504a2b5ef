"""Numbers rounded to fewer bits."""

from __future__ import annotations

import torch


def rounded(tensor: torch.Tensor, bits: int, *, truncate: bool = False) -> torch.Tensor:
    """float64 numbers rounded to ``bits`` significand bits, to nearest even or toward zero, with
    unlimited exponent."""
    mantissa, exponent = torch.frexp(tensor)
    scaled = torch.ldexp(mantissa, torch.tensor(bits))
    result = torch.ldexp(scaled.trunc() if truncate else scaled.round(), exponent - bits)
    return torch.where(torch.isfinite(tensor), result, tensor)


def to_bfloat16_and_back(base: torch.Tensor) -> torch.Tensor:
    return base.to(torch.bfloat16).to(base.dtype)
