"""Three architectures of torch alone, as large as people's: what the tests of capturing take
apart."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from consistency.training.training_task import Subject


class Block(nn.Module):
    """Two convolutions with batch norm, beside a shortcut."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        same = before == after and stride == 1
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(inner)).add_(self.shortcut(x)), inplace=True)


def resnet18(
    width: int = 64, size: int = 64, batch: int = 4, classes: int = 1000, blocks: int = 2
) -> Subject:
    torch.manual_seed(0)
    widths = [width, width, 2 * width, 4 * width, 8 * width]
    stages = [
        nn.Sequential(
            *(
                Block(before if i == 0 else after, after, 2 if i == 0 and before != after else 1)
                for i in range(blocks)
            )
        )
        for before, after in itertools.pairwise(widths)
    ]
    stem = [
        nn.Conv2d(3, width, 7, 2, 3, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    model = nn.Sequential(
        *stem, *stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, classes)
    )
    inputs, target = torch.randn(batch, 3, size, size), torch.randint(0, classes, (batch,))
    optimizer = partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=1e-4)
    return Subject(
        model, (inputs,), loss=F.cross_entropy, targets=(target,), optimizer=optimizer, steps=2,
        after=nn.Module.eval,
        name="ResNet-18",
    )  # fmt: skip


class Encoder(nn.Module):
    def __init__(self, tokens: int, width: int, heads: int, layers: int, length: int) -> None:
        super().__init__()
        self.embed, self.places = (
            nn.Embedding(tokens, width),
            nn.Parameter(torch.randn(length, width) * 0.02),
        )
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(
            layer, layers, nn.LayerNorm(width), enable_nested_tensor=False
        )
        self.head = nn.Linear(width, tokens)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.layers(self.embed(x) + self.places))
        return scores.flatten(0, 1)


def transformer(
    width: int = 512,
    heads: int = 8,
    layers: int = 6,
    tokens: int = 10_000,
    length: int = 64,
    batch: int = 4,
) -> Subject:
    torch.manual_seed(0)
    model = Encoder(tokens, width, heads, layers, length)
    inputs, target = (
        torch.randint(0, tokens, (batch, length)),
        torch.randint(0, tokens, (batch * length,)),
    )
    return Subject(
        model, (inputs,), loss=F.cross_entropy, targets=(target,),
        optimizer=partial(torch.optim.AdamW, lr=1e-3), steps=2,
        after=nn.Module.eval, name="transformer encoder",
    )  # fmt: skip


class LanguageModel(nn.Module):
    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.embed, self.lstm, self.head = (
            nn.Embedding(tokens, width),
            nn.LSTM(width, width, 2, batch_first=True),
            nn.Linear(width, tokens),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.lstm(self.embed(x))[0])
        return scores.flatten(0, 1)


def lstm(width: int = 650, tokens: int = 10_000, length: int = 35, batch: int = 8) -> Subject:
    torch.manual_seed(0)
    inputs, target = (
        torch.randint(0, tokens, (batch, length)),
        torch.randint(0, tokens, (batch * length,)),
    )
    return Subject(
        LanguageModel(tokens, width), (inputs,), loss=F.cross_entropy, targets=(target,),
        optimizer=partial(torch.optim.Adam, lr=1e-3), steps=2, after=nn.Module.eval,
        name="LSTM language model",
    )  # fmt: skip


LARGE: dict[str, Callable[[], Subject]] = {
    "resnet18": resnet18,
    "transformer": transformer,
    "lstm": lstm,
}
SMALL: dict[str, Callable[[], Subject]] = {
    "resnet18": partial(resnet18, width=8, size=32, batch=2, classes=10, blocks=1),
    "transformer": partial(transformer, width=32, heads=4, layers=2, tokens=50, length=9, batch=2),
    "lstm": partial(lstm, width=24, tokens=50, length=7, batch=3),
}
