"""Three small models of torch alone, and a step of training: what the tests of watching look at."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

Made = tuple[nn.Module, torch.Tensor, torch.Tensor]


def convolutional() -> Made:
    """Convolutions, batch norm, pooling and a classifier."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8,
        6, 3), nn.GELU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 10),
    )  # fmt: skip
    return model, torch.randn(4, 3, 12, 12), torch.tensor([0, 1, 2, 3])


class Encoder(nn.Module):
    """One transformer layer between two projections."""

    def __init__(self) -> None:
        super().__init__()
        self.inwards = nn.Linear(12, 16)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.outwards = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.outwards(self.encoder(self.inwards(x)).mean(1))
        return found


def transformer() -> Made:
    torch.manual_seed(0)
    return Encoder(), torch.randn(3, 7, 12), torch.tensor([0, 4, 2])


class Sequences(nn.Module):
    """An embedding, two layers of LSTM, and a classifier of the last state."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.lstm = nn.LSTM(8, 16, 2, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.lstm(self.embed(x))[0][:, -1])
        return found


def recurrent() -> Made:
    torch.manual_seed(0)
    return Sequences(), torch.randint(0, 11, (3, 6)), torch.tensor([0, 1, 3])


MODELS: dict[str, Callable[[], Made]] = {
    "convolutional": convolutional, "transformer": transformer, "recurrent": recurrent,
}  # fmt: skip


def train(made: Made, steps: int = 1) -> list[float]:
    """Steps of Adam; the losses."""
    model, inputs, targets = made
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses
