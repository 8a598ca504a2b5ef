"""A network of 10, 20 and 1 units with ReLU, trained with Adam.

Two things amplify rounding here. Adam divides by the root of a gradient's square, so a gradient
that is only rounding noise takes a step as large as any other; and a ReLU whose input is zero but
for rounding is open in one run and shut in the other.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from ..training_task import Subject
from .data import SeededBits, built

EPOCHS = 100


def subject() -> Subject:
    """128 points of a smooth function of ten numbers; 100 epochs on all of them at once."""
    bits = SeededBits(2 << 12)
    x = bits.uniform(128, 10)
    y = x[:, :1] * x[:, 1:2] + 0.5 * x[:, 2:3].abs() - x[:, 3:4] + 0.25 * x[:, 4:5]
    model = built(lambda: nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1)), bits)
    return Subject(
        model=model, inputs=(x,), loss=F.mse_loss, targets=(y,), optimizer=partial(torch.optim.Adam,
        lr=0.01), steps=EPOCHS,
        name="mlp",
    )  # fmt: skip
