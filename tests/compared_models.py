"""A ResNet-like and a transformer-like model of torch alone, in two sizes, and faults to plant into one operator of one layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from consistency import Subject


class Block(nn.Module):
    """Two convolutions with batch norm, and a way around them."""

    def __init__(self, inwards: int, outwards: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inwards, outwards, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outwards)
        self.conv2 = nn.Conv2d(outwards, outwards, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outwards)
        self.relu = nn.ReLU(inplace=True)
        self.around = nn.Sequential()
        if stride != 1 or inwards != outwards:
            self.around = nn.Sequential(nn.Conv2d(inwards, outwards, 1, stride, bias=False), nn.BatchNorm2d(outwards))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += self.around(x)
        return self.relu(y)  # type: ignore[no-any-return]


class ResNet(nn.Module):
    """A stem, four stages of one or more blocks, a classifier."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2))
        sizes = [width, width, 2 * width, 4 * width, 8 * width]
        stages = [
            nn.Sequential(
                *(Block(sizes[i] if not b else sizes[i + 1], sizes[i + 1], 2 if i and not b else 1) for b in range(blocks))
            )
            for i in range(4)
        ]
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(sizes[-1], 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer4(self.layer3(self.layer2(self.layer1(self.stem(x)))))
        return self.fc(self.pool(x).flatten(1))  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Embeddings of words and positions, encoder layers, a classifier of every word."""

    def __init__(self, words: int, width: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Parameter(0.1 * torch.randn(length, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


def weighted(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross entropy of each item, then their weighted mean, as losses per word are written."""
    losses = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none")
    return (losses * torch.linspace(0.5, 1.5, losses.numel(), dtype=losses.dtype, device=losses.device)).mean()


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, 1e-3)


def resnet(width: int = 8, blocks: int = 1, batch: int = 4, size: int = 16, steps: int = 1) -> Subject:
    torch.manual_seed(0)
    model = ResNet(width, blocks)
    data, targets = torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,))
    return Subject(model, (data,), loss=weighted, targets=(targets,), optimizer=adam, steps=steps, name="ResNet")


def transformer(
    words: int = 23, width: int = 32, heads: int = 2, layers: int = 2, length: int = 12, batch: int = 3, steps: int = 1
) -> Subject:
    torch.manual_seed(0)
    model = Transformer(words, width, heads, layers, length)
    tokens = torch.randint(0, words, (batch, length))
    return Subject(model, (tokens,), loss=weighted, targets=(tokens.roll(1, 1),), optimizer=adam, steps=steps, name="transformer")
