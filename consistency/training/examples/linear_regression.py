"""Linear regression with SGD: the smallest thing that trains. What one rounding has done the next
step undoes."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from ..training_task import Subject
from .data import SeededBits, built

EPOCHS = 100


def subject() -> Subject:
    """64 points of y = 2·x₀ - 3·x₁ + 0.5·x₂ + 1 with noise; 100 epochs on all of them at once."""
    bits = SeededBits(1 << 12)
    x = bits.uniform(64, 3)
    # Element by element, as the order of a sum is the device's own: the same bits anywhere.
    y = 2.0 * x[:, :1] - 3.0 * x[:, 1:2] + 0.5 * x[:, 2:] + 1.0 + bits.normal(64, 1, deviation=0.05)
    model = built(lambda: nn.Linear(3, 1), bits)
    return Subject(
        model=model, inputs=(x,), loss=F.mse_loss, targets=(y,), optimizer=partial(torch.optim.SGD,
        lr=0.1), steps=EPOCHS,
        name="linear-regression",
    )  # fmt: skip
