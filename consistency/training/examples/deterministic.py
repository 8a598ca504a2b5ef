"""Operators with a deterministic and a faster variant: many rows added to few places, forward and
in the gradient of an embedding.

The order of a sum decides its rounding. With ``torch.use_deterministic_algorithms(True)`` the order
is fixed; without it a device may take any, and the same program gives other bits each time. Both
are rounding.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from ..training_task import Subject
from ..variants import Variant, deterministic
from .data import SeededBits, built

STEPS = 3


class Votes(nn.Module):
    """Every token gives its vector to its group, by index_add and by accumulating assignment."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(12, 16), nn.Linear(32, 3)
        self.groups = groups

    def forward(self, tokens: torch.Tensor, group: torch.Tensor) -> torch.Tensor:
        vectors = self.embed(tokens)
        empty = vectors.new_zeros(self.groups, vectors.shape[1])
        added = empty.index_add(0, group, vectors)
        put = empty.index_put((group,), vectors, accumulate=True)
        scores: torch.Tensor = self.head(torch.cat([added, put], 1) / tokens.shape[0])
        return scores


def subject() -> Subject:
    """400 tokens in five groups, three steps of SGD."""
    bits = SeededBits(28 << 12)
    tokens, group, target = (
        bits.whole(400, low=0, high=11),
        bits.whole(400, low=0, high=4),
        bits.whole(5, low=0, high=2),
    )
    return Subject(
        model=built(lambda: Votes(5), bits), inputs=(tokens, group), loss=F.cross_entropy,
        targets=(target,),
        optimizer=partial(torch.optim.SGD, lr=1.0), steps=STEPS, name="deterministic (any order)",
    )  # fmt: skip


def flagged() -> Variant:
    """The same with ``torch.use_deterministic_algorithms(True)``."""
    return Variant("deterministic algorithms only", subject(), deterministic)
