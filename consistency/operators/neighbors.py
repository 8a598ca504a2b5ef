"""The next number of a format, counted in bits: the definition beside torch's own function."""

from __future__ import annotations

from typing import Any

import torch

_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


def next_number(input: torch.Tensor, other: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    """``torch.nextafter`` in the format of the operands (IEEE 754-2019, 5.3.1: as nextUp and
    nextDown; C23, F.10.8.3: equal numbers give the second one, zeros too)."""
    dtype = torch.promote_types(input.dtype, other.dtype)
    shape = (input.to(dtype) + other.to(dtype)).shape
    x, y = (operand.to(dtype).expand(shape) for operand in (input, other))
    whole = _INTEGERS[dtype.itemsize]
    lowest = torch.iinfo(whole).min
    bits = x.contiguous().view(whole)
    rank = torch.where(bits < 0, lowest - bits, bits)  # numbers in order, both zeros at 0
    rank = rank + (x < y).to(whole) - (x > y).to(whole)
    negative = (rank < 0) | ((rank == 0) & x.signbit())
    found = torch.where(negative, lowest - rank, rank).to(whole).view(dtype)
    return torch.where(x == y, y, torch.where(x.isnan() | y.isnan(), x + y, found))
