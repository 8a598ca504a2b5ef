"""±½ ulp: a replica of the float64 model in which every number is moved as far as rounding to the
tested format can move it."""

from __future__ import annotations

import torch

from ..generate import bitstream

_LENGTH = 1 << 18  # signs that are drawn once
_STEP = 104_729  # a prime: each call begins elsewhere
_EXPONENT = 0x7FF0000000000000


class Signs:
    """Signs from the tape for replica number ``replica``, one after the other; every call gets
    others. ``times`` ½ ulp."""

    def __init__(self, replica: int, times: float = 1.0) -> None:
        self._times = times
        bits, _ = bitstream.window(_LENGTH, _LENGTH * (replica + 1))
        odd = torch.from_numpy((bits >> 40).astype("int64") & 1)
        self._signs = odd.to(torch.float64).mul_(2.0).sub_(1.0)
        self._at = 0

    def move(self, tensor: torch.Tensor, precision: int, more: float = 0.0) -> None:
        """Move every number of a float64 tensor by half an ulp of a format with so many significand
        bits, and by ``more``."""
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor)
        if tensor.dtype != torch.float64 or precision >= 53 or not tensor.numel():
            return
        step = (
            tensor.view(torch.int64).bitwise_and(_EXPONENT).view(torch.float64)
        )  # the power of two below each number
        step.nan_to_num_(nan=0.0, posinf=0.0).mul_(self._times * 2.0**-precision)
        if more:
            step.add_(self._times * more)
        flat = (
            step.view(-1) if step.is_contiguous() else step.as_strided((step.numel(),), (1,))
        )  # dense, in whatever order
        self._at = (self._at + _STEP) % _LENGTH
        self._flip(flat)
        tensor.add_(step)

    def _flip(self, flat: torch.Tensor) -> None:
        start = self._at
        for begin in range(0, flat.numel(), _LENGTH):
            block = flat[begin : begin + _LENGTH]
            first = min(block.numel(), _LENGTH - start)
            block[:first].mul_(self._signs[start : start + first])
            if first < block.numel():
                block[first:].mul_(self._signs[: block.numel() - first])
            start = (start + _STEP) % _LENGTH
