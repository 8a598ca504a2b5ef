"""Two layers of LSTM over an embedding: one fused operator forward and backward on the CPU
(oneDNN), many small ones without it."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from ..training_task import Subject
from .data import SeededBits, built

STEPS = 5


class Reader(nn.Module):
    """Token numbers [batch, length] → scores of the next token [batch, tokens]."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.embed(tokens))
        scores: torch.Tensor = self.head(states[:, -1])
        return scores


def subject() -> Subject:
    """Five steps of Adam on sequences of 12 tokens."""
    bits = SeededBits(8 << 12)
    tokens, target = bits.whole(6, 12, low=0, high=19), bits.whole(6, low=0, high=19)
    return Subject(
        model=built(lambda: Reader(20, 16), bits), inputs=(tokens,), loss=F.cross_entropy,
        targets=(target,),
        optimizer=partial(torch.optim.Adam, lr=0.01), steps=STEPS, name="lstm",
    )  # fmt: skip
