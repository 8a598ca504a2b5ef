"""One encoder block of a transformer: attention, layer norm, GELU, residual connections. Dropout is
off (there is an example)."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from ..training_task import Subject
from .data import SeededBits, built

STEPS = 5


class Classifier(nn.Module):
    """Sequences of vectors [batch, length, 12] → scores [batch, 4]."""

    def __init__(self) -> None:
        super().__init__()
        self.inwards = nn.Linear(12, 32)
        self.encoder = nn.TransformerEncoderLayer(
            32, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.outwards = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.outwards(self.encoder(self.inwards(x)).mean(1))
        return scores


def subject() -> Subject:
    """Five steps of AdamW on sequences of nine vectors."""
    bits = SeededBits(12 << 12)
    x, target = bits.normal(4, 9, 12), bits.whole(4, low=0, high=3)
    return Subject(
        model=built(Classifier, bits), inputs=(x,), loss=F.cross_entropy, targets=(target,),
        optimizer=partial(torch.optim.AdamW, lr=0.003), steps=STEPS, name="transformer",
    )  # fmt: skip
