"""Dropout draws numbers, and another draw is no error: two runs can be compared only if both draw
the same mask.

Measured on the CPU: after the same seed, ``F.dropout(x, p)``, ``x.bernoulli_(p)`` and the dropout
inside of attention give the same mask in float64, float32, bfloat16 and float16; ``torch.rand`` and
``torch.bernoulli(tensor of p)`` do not, as they spend another number of random bits on an element
of another dtype. And torch 2.4.1 and 2.13 drop other elements for the same seed, though their
``torch.rand`` is the same in float32. So what holds is a mask that is drawn on the CPU by
``torch.rand`` in one dtype, and then moved: that is what ``SharedMask`` does.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from ..training_task import Subject
from .data import SeededBits, built

STEPS = 10


class SharedMask(nn.Module):
    """Dropout whose mask is drawn on the CPU from a generator of its own, once per training step,
    whatever the dtype and device."""

    def __init__(self, p: float, seed: int) -> None:
        super().__init__()
        self.p, self.seed, self.step = p, seed, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return x
        generator = torch.Generator().manual_seed(self.seed + self.step)
        self.step += 1  # a number, not a generator: a copy of the model goes on with the same masks
        mask = torch.rand(x.shape, generator=generator, dtype=torch.float32) >= self.p
        return x * mask.to(x.dtype).to(x.device) / (1.0 - self.p)


def _network(dropout: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(12, 32), nn.Tanh(), dropout, nn.Linear(32, 4))


def _trained(dropout: nn.Module, name: str) -> Subject:
    bits = SeededBits(5 << 12)
    x, target = bits.normal(24, 12), bits.whole(24, low=0, high=3)
    model = built(lambda: _network(dropout), bits)
    return Subject(
        model=model, inputs=(x,), loss=F.cross_entropy, targets=(target,),
        optimizer=partial(torch.optim.SGD, lr=0.1), steps=STEPS,
        name=name,
    )  # fmt: skip


def subject() -> Subject:
    """Ten training steps; every backend and the reference get the same masks."""
    return _trained(SharedMask(0.4, seed=7), "dropout")


def own_masks() -> Subject:
    """``nn.Dropout`` draws from torch's global generator: right on one device, another mask on the
    next."""
    return _trained(nn.Dropout(0.4), "dropout-own-masks")


def evaluated() -> Subject:
    """In evaluation mode dropout does nothing, and there is nothing to share."""
    bits = SeededBits(5 << 12)
    x = bits.normal(24, 12)
    return Subject(
        model=built(lambda: _network(nn.Dropout(0.4)), bits).eval(),
        inputs=(x,),
        name="dropout-eval",
    )
