"""Fewer bits on purpose, and more: autocast to bfloat16 and float16, and a part of a model that
computes in float64.

Under autocast every matrix product rounds its inputs to 8 bits (bfloat16) or 11 (float16) while
sums of many terms stay in float32. That is what was asked for; it is no backend's fault, and what a
backend owes is the same rounding of the same numbers.
"""

from __future__ import annotations

import contextlib

import torch
from torch import nn
from torch.nn import functional as F

from ..training_task import Subject
from .data import SeededBits, Within, built


class Autocast(nn.Module):
    """A model whose forward runs under autocast, on whatever device its input lies."""

    def __init__(self, inner: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.inner, self.dtype = inner, dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(x.device.type, dtype=self.dtype):
            scores: torch.Tensor = self.inner(x)
        return scores.to(x.dtype)


class WideMiddle(nn.Module):
    """float32 layers around a standardization in float64, cast back by hand: what one does where a
    variance needs the digits."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(12, 24), nn.Linear(24, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = self.first(x).double()
        wide = (wide - wide.mean(1, keepdim=True)) / (wide.var(1, keepdim=True) + 1e-5).sqrt()
        scores: torch.Tensor = self.last(wide.to(x.dtype))
        return scores


def network() -> nn.Module:
    return nn.Sequential(
        nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4)
    )


def _subject(model: nn.Module, bits: SeededBits, name: str) -> Subject:
    x, target = bits.normal(16, 12), bits.whole(16, low=0, high=3)
    return Subject(model=model, inputs=(x,), loss=F.cross_entropy, targets=(target,), name=name)


def bfloat16() -> Subject:
    """Forward and backward under autocast to bfloat16."""
    bits = SeededBits(16 << 12)
    return _subject(Autocast(built(network, bits), torch.bfloat16), bits, "autocast-bfloat16")


def float16() -> Subject:
    """Forward and backward under autocast to float16."""
    bits = SeededBits(16 << 12)
    return _subject(Autocast(built(network, bits), torch.float16), bits, "autocast-float16")


def plain() -> Subject:
    """The same network without autocast, to see what that costs in digits."""
    bits = SeededBits(16 << 12)
    return _subject(
        Within(built(network, bits), contextlib.nullcontext), bits, "float32 throughout"
    )


def wide_middle() -> Subject:
    """float32 to float64 and back, by hand."""
    bits = SeededBits(17 << 12)
    return _subject(built(WideMiddle, bits), bits, "mixed-dtypes")


def layer_norm() -> Subject:
    """2,048 rows through a layer norm under autocast to bfloat16.

    Its bias gets as gradient the sum over all rows, in float32, or so it says: torch's CPU kernel
    (2.4.1 and 2.13 alike) adds the rows up in bfloat16. What is added to a number 256 times its
    size is lost there, so the sum stops growing, while every output and the loss are right.
    """
    bits = SeededBits(18 << 12)
    x = bits.normal(2048, 8)
    model = built(lambda: nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 2)), bits)
    return Subject(
        model=Autocast(model, torch.bfloat16),
        inputs=(x,),
        loss=lambda scores: scores.square().sum(),
        name="autocast-layer-norm",
    )
