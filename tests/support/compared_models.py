"""A ResNet-like and a transformer-like model of torch alone, in two sizes, and faults to plant into
one operator of one layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from consistency import Backend, Subject


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
            self.around = nn.Sequential(
                nn.Conv2d(inwards, outwards, 1, stride, bias=False), nn.BatchNorm2d(outwards)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += self.around(x)
        return self.relu(y)  # type: ignore[no-any-return]


class ResNet(nn.Module):
    """A stem, four stages of one or more blocks, a classifier."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        sizes = [width, width, 2 * width, 4 * width, 8 * width]
        stages = [
            nn.Sequential(
                *(
                    Block(
                        sizes[i] if not b else sizes[i + 1], sizes[i + 1], 2 if i and not b else 1
                    )
                    for b in range(blocks)
                )
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
        self.words, self.positions = (
            nn.Embedding(words, width),
            nn.Parameter(0.1 * torch.randn(length, width)),
        )
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width,
                heads,
                4 * width,
                dropout=0.0,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
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
    return (
        losses * torch.linspace(0.5, 1.5, losses.numel(), dtype=losses.dtype, device=losses.device)
    ).mean()


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, 1e-3)


def resnet(
    width: int = 8, blocks: int = 1, batch: int = 4, size: int = 16, steps: int = 1
) -> Subject:
    torch.manual_seed(0)
    model = ResNet(width, blocks)
    data, targets = torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,))
    return Subject(
        model,
        (data,),
        loss=weighted,
        targets=(targets,),
        optimizer=adam,
        steps=steps,
        name="ResNet",
    )


def transformer(
    words: int = 23,
    width: int = 32,
    heads: int = 2,
    layers: int = 2,
    length: int = 12,
    batch: int = 3,
    steps: int = 1,
) -> Subject:
    torch.manual_seed(0)
    model = Transformer(words, width, heads, layers, length)
    tokens = torch.randint(0, words, (batch, length))
    return Subject(
        model,
        (tokens,),
        loss=weighted,
        targets=(tokens.roll(1, 1),),
        optimizer=adam,
        steps=steps,
        name="transformer",
    )


class Planted(Backend):
    """The CPU, but for one call: the ``nth`` call of ``operator`` (from 0) goes wrong, as
    ``fault(run, args)`` says.

    ``run()`` makes the call as it should be.
    """

    name = "planted"

    def __init__(self, operator: str, nth: int, fault: Callable[..., Any]) -> None:
        self._operator, self._nth, self._fault, self._calls = operator, nth, fault, 0

    def call(self, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        def run() -> Any:
            return super(Planted, self).call(operator, args, kwargs)

        if operator.name != self._operator:
            return run()
        self._calls += 1
        return self._fault(run, args) if self._calls == self._nth + 1 else run()


def replaced(change: Callable[[torch.Tensor], torch.Tensor], output: int = 0) -> Callable[..., Any]:
    """A fault: one of the results is another one."""

    def fault(run: Callable[[], Any], args: Sequence[Any]) -> Any:
        found = run()
        if not isinstance(found, tuple):
            return change(found)
        return (*found[:output], change(found[output]), *found[output + 1 :])

    return fault


def one_channel(x: torch.Tensor) -> torch.Tensor:
    """The last channel is a thousandth too large."""
    wrong = x.clone()
    wrong[:, -1] *= 1.001
    return wrong


def last_number(x: torch.Tensor) -> torch.Tensor:
    """The last number of all is a hundredth of the largest too large."""
    wrong = x.clone()
    wrong[(-1,) * x.ndim] += 0.01 * float(x.abs().max())
    return wrong


def shifted(x: torch.Tensor) -> torch.Tensor:
    return x.roll(1, -1)


def zero(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x)


def short(x: torch.Tensor) -> torch.Tensor:
    """As if it had been computed in bfloat16."""
    return x.bfloat16().float()


def statistics_untouched(run: Callable[[], Any], args: Sequence[Any]) -> Any:
    """A batch norm that leaves its running statistics as they were."""
    before = [args[3].clone(), args[4].clone()]
    found = run()
    for kept, now in zip(before, args[3:5], strict=True):
        now.copy_(kept)
    return found


def biased_statistics(run: Callable[[], Any], args: Sequence[Any]) -> Any:
    """The running variance with the variance over n, not over n - 1."""
    before = args[4].clone()
    found = run()
    n = args[0].numel() / args[0].shape[1]
    args[4].copy_(before + (args[4] - before * 0.9) * (n - 1) / n - before * 0.1)
    return found


def lost_write(run: Callable[[], Any], args: Sequence[Any]) -> Any:
    """Nothing is written."""
    return args[0]


def permuted_norm(run: Callable[[], Any], args: Sequence[Any]) -> Any:
    """A layer norm that reads a tensor in the order of its memory, as if it had the words and the
    features the other way round."""
    x, shape, weight, bias, eps = args
    other = x.transpose(-1, -2).contiguous().reshape(x.shape)
    return torch.ops.aten.native_layer_norm(other, shape, weight, bias, eps)


def half_of_the_batch(x: torch.Tensor) -> torch.Tensor:
    wrong = x.clone()
    wrong[len(x) // 2 :] = 0.0
    return wrong


# (model, operator, number of its call in a step, fault, module): what is planted, and what must be
# named.
FAULTS: dict[str, tuple[str, str, int, Callable[..., Any], str]] = {
    "a channel of a convolution": ("resnet", "aten.convolution", 4, replaced(one_channel),
    'Conv2d "layer2.0.conv2"'),
    "a convolution in bfloat16": ("resnet", "aten.convolution", 1, replaced(short),
    'Conv2d "layer1.0.conv1"'),
    "the last pixel of a convolution": ("resnet", "aten.convolution", 5, replaced(last_number),
    'Conv2d "layer2.0.around.0"'),
    "half of a batch": ("resnet", "aten.convolution", 7, replaced(half_of_the_batch),
    'Conv2d "layer3.0.conv2"'),
    "a filter's gradient": (
        "resnet", "aten.convolution_backward", 3, replaced(one_channel, 1),
        'backward of Conv2d "layer3.0.around.0"',
    ),
    "a gradient shifted by a pixel": (
        "resnet", "aten.convolution_backward", 4, replaced(shifted),
        'backward of Conv2d "layer3.0.conv2"',
    ),
    "running statistics untouched": ("resnet", "aten.native_batch_norm", 3, statistics_untouched,
    'BatchNorm2d "layer2.0.bn1"'),
    "a biased running variance": ("resnet", "aten.native_batch_norm", 10, biased_statistics,
    'BatchNorm2d "layer4.0.bn2"'),
    "a batch norm's channel": ("resnet", "aten.native_batch_norm", 0, replaced(one_channel),
    'BatchNorm2d "stem.1"'),
    "a batch norm's gradient": (
        "resnet", "aten.native_batch_norm_backward", 5, replaced(one_channel),
        'backward of BatchNorm2d "layer3.0.bn1"',
    ),
    "a batch norm's weight": (
        "resnet", "aten.native_batch_norm_backward", 11, replaced(zero, 1),
        'backward of BatchNorm2d "stem.1"',
    ),
    "a lost in-place addition": ("resnet", "aten.add_", 4 + 3, lost_write, 'Block "layer2.0"'),
    "a lost in-place relu": ("resnet", "aten.relu_", 2, lost_write, 'ReLU "layer2.0.relu"'),
    "a relu's gradient": ("resnet", "aten.threshold_backward", 2, replaced(zero),
    'backward of ReLU "layer3.0.relu"'),
    "a pooling's gradient": (
        "resnet", "aten.max_pool2d_with_indices_backward", 0, replaced(shifted),
        'backward of MaxPool2d "stem.3"',
    ),
    "zero gradient of reduction none": ("resnet", "aten.nll_loss_backward", 0, replaced(zero),
    "backward of NllLossBackward0"),
    "the same of words": ("transformer", "aten.nll_loss_backward", 0, replaced(zero),
    "backward of NllLossBackward0"),
    "a permuted layer norm": ("transformer", "aten.native_layer_norm", 2, permuted_norm,
    'LayerNorm "layers.1.norm1"'),
    "a layer norm's gradient": (
        "transformer", "aten.native_layer_norm_backward", 1, replaced(last_number),
        'backward of LayerNorm "layers.1.norm2"',
    ),
    "a column of a linear layer": ("transformer", "aten.addmm", 2, replaced(one_channel),
    'Linear "layers.0.linear2"'),
    "an attention": (
        "transformer", "aten._scaled_dot_product_flash_attention_for_cpu", 1, replaced(last_number),
        'MultiheadAttention "layers.1.self_attn"',
    ),
    "an attention's gradient": (
        "transformer", "aten._scaled_dot_product_flash_attention_for_cpu_backward", 1,
        replaced(one_channel, 1),
        'backward of MultiheadAttention "layers.0.self_attn"',
    ),
    "a gelu": ("transformer", "aten.gelu", 1, replaced(last_number),
    'TransformerEncoderLayer "layers.1"'),
    "a gelu's gradient": (
        "transformer", "aten.gelu_backward", 1, replaced(short),
        'backward of TransformerEncoderLayer "layers.0"',
    ),
    "an embedding's gradient": (
        "transformer", "aten.embedding_dense_backward", 0, replaced(zero),
        'backward of Embedding "words"',
    ),
    "an optimizer's second moment": ("transformer", "aten.addcmul_", 4, lost_write, ""),
    "an optimizer's step lost": ("transformer", "aten.addcdiv_", 7, lost_write, ""),
}  # fmt: skip
MODELS: dict[str, Callable[..., Subject]] = {"resnet": resnet, "transformer": transformer}
