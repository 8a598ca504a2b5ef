"""How far float32 walks away from float64, step by step.

``subject`` trains long and calmly: the parameters drift apart steadily, and the loss does not mind.
``chaos`` feeds a network back to itself that stretches every small difference: after 40 times
hardly a digit is left, on any device and without any defect. The band knows that, because the
float64 model itself answers to half an ulp in the same way.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from ..training_task import Subject
from .data import SeededBits, built
from .recurrent import FedBack

STEPS = 200


def subject() -> Subject:
    """200 steps of SGD with momentum on a network with tanh."""
    bits = SeededBits(32 << 12)
    x = bits.uniform(64, 4, low=-2.0, high=2.0)
    y = x[:, :1] * x[:, 1:2] - x[:, 2:3] * x[:, 2:3]
    model = built(lambda: nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 1)), bits)
    return Subject(
        model=model, inputs=(x,), loss=F.mse_loss, targets=(y,), optimizer=partial(torch.optim.SGD,
        lr=0.02, momentum=0.9),
        steps=STEPS, name="drift",
    )  # fmt: skip


def chaos() -> Subject:
    """A recurrent network whose weights are large, 40 times; forward and backward, no training."""
    bits = SeededBits(36 << 12)
    state = bits.uniform(4, 24)
    model = built(lambda: FedBack(24, 40), bits, gain=5.0)
    return Subject(
        model=model, inputs=(state,), loss=lambda states: states[-1].square().mean(), name="chaos"
    )
