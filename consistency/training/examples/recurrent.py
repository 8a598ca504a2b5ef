"""A linear layer and tanh, fed back ten times: each step sees the rounding of the one before,
forward and in the gradient."""

from __future__ import annotations

import torch
from torch import nn

from ..training_task import Subject
from .data import SeededBits, built

TIMES = 10


class FedBack(nn.Module):
    """h ← tanh(W·h + b), ``times`` times over; all states are returned, [times, batch,
    features]."""

    def __init__(self, features: int, times: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.times = times

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        states = []
        for _ in range(self.times):
            state = torch.tanh(self.linear(state))
            states.append(state)
        return torch.stack(states)


def subject() -> Subject:
    """16 features, a batch of 8; the loss is taken of the last state, so the gradient goes back
    through all ten."""
    bits = SeededBits(3 << 12)
    state = bits.uniform(8, 16)
    model = built(lambda: FedBack(16, TIMES), bits, gain=1.5)
    return Subject(
        model=model,
        inputs=(state,),
        loss=lambda states: states[-1].square().mean(),
        name="recurrent",
    )
