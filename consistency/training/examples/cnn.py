"""A small convolutional network: convolutions, group norm, pooling, and a classifier."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from ..training_task import Subject
from .data import SeededBits, built

STEPS = 5


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.SiLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(64, 5),
    )  # fmt: skip


def subject() -> Subject:
    """Five steps of SGD with momentum on four pictures of 12 × 12."""
    bits = SeededBits(6 << 12)
    pictures, target = bits.uniform(4, 3, 12, 12), bits.whole(4, low=0, high=4)
    return Subject(
        model=built(network, bits), inputs=(pictures,), loss=F.cross_entropy, targets=(target,),
        optimizer=partial(torch.optim.SGD, lr=0.05, momentum=0.9), steps=STEPS, name="cnn",
    )  # fmt: skip
