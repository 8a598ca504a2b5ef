"""The same formulas in place and out of place: a device that loses writes to views is right in one
and wrong in the other."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from ..training_task import Subject
from .data import SeededBits, built

STEPS = 5


class Blocks(nn.Module):
    """Two residual layers; their result is put together from halves."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)
        self.in_place = in_place

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._in_place(x) if self.in_place else self._out_of_place(x)

    def _in_place(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.relu_(self.first(x).add_(x))
        swapped = torch.empty_like(hidden)
        swapped[:, :8] = hidden[:, 8:]
        swapped[:, 8:] = hidden[:, :8]
        scores: torch.Tensor = self.second(swapped)
        return scores.mul_(0.5).clamp_(min=-1.0)

    def _out_of_place(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.first(x) + x)
        swapped = torch.cat([hidden[:, 8:], hidden[:, :8]], 1)
        scores: torch.Tensor = self.second(swapped)
        return (scores * 0.5).clamp(min=-1.0)


def _subject(in_place: bool, name: str) -> Subject:
    bits = SeededBits(20 << 12)
    x, target = bits.normal(8, 16), bits.normal(8, 16)
    return Subject(
        model=built(partial(Blocks, in_place), bits), inputs=(x,), loss=F.mse_loss, targets=(target,
        ),
        optimizer=partial(torch.optim.SGD, lr=0.1, momentum=0.9, foreach=in_place), steps=STEPS,
        name=name,
    )  # fmt: skip


def subject() -> Subject:
    """In place: add_, relu_, assignments to slices, mul_, clamp_; and an optimizer that updates
    lists of tensors at once."""
    return _subject(True, "in-place")


def otherwise() -> Subject:
    """The same out of place, and an optimizer that updates tensor by tensor."""
    return _subject(False, "out of place")
