"""Convolutions with the sizes that well-known networks have: kernels are chosen by such sizes, and
what people report is about them. Only the numbers of channels and pixels are smaller."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from .declare import Call, Domain, Drawing, call
from .parameter_sampling import spread, summed


@dataclass(frozen=True)
class ConvolutionLayer:
    """Kernel, stride, padding and dilation of a layer, one number for each dimension or for all;
    ``depthwise``: every channel has a kernel of its own; ``colors``: the channels of its input."""

    kernel: tuple[int, ...]
    stride: int | tuple[int, ...] = 1
    padding: int | tuple[int, ...] = 0
    dilation: int = 1
    depthwise: bool = False
    colors: int | None = None


LAYERS = {
    1: (
        ConvolutionLayer((3,), 1, 1),  # Whisper, its first layer
        ConvolutionLayer((3,), 2, 1),  # Whisper, its second
        ConvolutionLayer((10,), 5, colors=1),  # wav2vec 2.0, its first layer
        ConvolutionLayer((16,), 10, colors=1),  # filters of raw sound, 16 samples each
        ConvolutionLayer((4,), 1, 3, depthwise=True),  # Mamba, causal: cut off behind
        ConvolutionLayer((31,), 1, 15, depthwise=True),  # Conformer
        ConvolutionLayer((2,), 1, 0, 8),  # WaveNet
        ConvolutionLayer((11,), 1, 25, 5),  # HiFi-GAN
        ConvolutionLayer((80,), 4, 38, colors=1),  # M5 on raw sound
    ),
    2: (
        ConvolutionLayer((3, 3), 1, 1),  # VGG
        ConvolutionLayer((3, 3), 2, 1),  # ResNet, halving
        ConvolutionLayer((1, 1), 2),  # ResNet, beside it
        ConvolutionLayer((7, 7), 2, 3, colors=3),  # ResNet, its first layer
        ConvolutionLayer((11, 11), 4, 2, colors=3),  # AlexNet
        ConvolutionLayer((4, 4), 4, colors=3),  # Swin, ConvNeXt
        ConvolutionLayer((14, 14), 14, colors=3),  # DINOv2
        ConvolutionLayer((16, 16), 16, colors=3),  # ViT
        ConvolutionLayer(
            (16, 16), 10, colors=1
        ),  # spectrograms in patches that overlap, as AST has them
        ConvolutionLayer((3, 3), 1, 1, depthwise=True),  # MobileNet
        ConvolutionLayer((5, 5), 2, 2, depthwise=True),  # EfficientNet
        ConvolutionLayer((7, 7), 1, 3, depthwise=True),  # ConvNeXt
        ConvolutionLayer((31, 31), 1, 15, depthwise=True),  # RepLKNet
        ConvolutionLayer((1, 7), 1, (0, 3)),  # Inception v3
        ConvolutionLayer((7, 1), 1, (3, 0)),  # Inception v3
        ConvolutionLayer((3, 3), 1, 12, 12),  # DeepLab v3
        ConvolutionLayer((9, 9), 1, 4),  # SRCNN
    ),
    3: (
        ConvolutionLayer((3, 3, 3), 1, 1),  # C3D
        ConvolutionLayer((7, 7, 7), 2, 3, colors=3),  # I3D
        ConvolutionLayer((1, 7, 7), (1, 2, 2), (0, 3, 3), colors=3),  # R(2+1)D, in space
        ConvolutionLayer((3, 1, 1), 1, (1, 0, 0)),  # R(2+1)D, in time
        ConvolutionLayer((2, 16, 16), (2, 16, 16), colors=3),  # VideoMAE
        ConvolutionLayer((1, 2, 2), (1, 2, 2)),  # patches of latent video
        ConvolutionLayer((3, 3, 3), 1, 1, depthwise=True),  # X3D
    ),
}
TRANSPOSED_LAYERS = {
    1: (
        ConvolutionLayer((16,), 8, 4),  # HiFi-GAN
        ConvolutionLayer((4,), 2, 1),  # HiFi-GAN
        ConvolutionLayer((20,), 10, 5),  # DAC
    ),
    2: (
        ConvolutionLayer((2, 2), 2),  # U-Net
        ConvolutionLayer((4, 4), 2, 1),  # DCGAN
        ConvolutionLayer((4, 4), 1),  # DCGAN, its first layer
        ConvolutionLayer((3, 3), 2, 1),  # CycleGAN
        ConvolutionLayer((16, 16), 8, 4),  # FCN-8s
        ConvolutionLayer((9, 9), 4, 4),  # FSRCNN
        ConvolutionLayer((4, 4), 2, 1, depthwise=True),  # CenterNet
    ),
    3: (ConvolutionLayer((2, 2, 2), 2), ConvolutionLayer((4, 4, 4), 2, 1)),  # 3D U-Net, 3D-GAN
}
FEW_CHANNELS = 8


def weights(domain: Domain) -> Domain:
    """Without NaN and infinities: whether padding and the gaps of a stride are zeros to multiply
    with, or are left out, is not defined."""
    return replace(domain, propagates=())


def as_in_networks(d: Drawing, rank: int, *, transposed: bool = False) -> Call:
    """A layer of a well-known network, one time in four with another stride. Shrinks to the first
    layer, one channel and the smallest image."""
    layer = d.choice(*(TRANSPOSED_LAYERS if transposed else LAYERS)[rank])
    if d.choice(False, False, False, True):
        layer = replace(layer, stride=d.integer(1, max(layer.kernel)))
    groups = d.integer(2, FEW_CHANNELS) if layer.depthwise else 1
    c_in = layer.colors or (1 if layer.depthwise else d.size(1, FEW_CHANNELS))
    c_out = d.integer(1, 2) if layer.depthwise else d.size(1, FEW_CHANNELS)
    padding, steps = spread(layer.padding, rank), spread(layer.stride, rank)
    if transposed:
        image = [d.size(1, 4) for _ in layer.kernel]
    else:
        least = [
            max(1, (k - 1) * layer.dilation + 1 - 2 * p)
            for k, p in zip(layer.kernel, padding, strict=True)
        ]
        image = [d.size(low, low + 2 * step) for low, step in zip(least, steps, strict=True)]
    channels = (c_in * groups, c_out) if transposed else (c_out * groups, c_in)
    domain = summed(d, c_in * math.prod(layer.kernel))
    bias = (d.tensor((c_out * groups,), domain),) if d.flag() else ()
    x = d.tensor(
        (d.integer(1, 2), c_in * groups, *image), weights(domain) if transposed else domain
    )
    options = {
        name: value
        for name, value, default in (
            ("stride", layer.stride, 1),
            ("padding", layer.padding, 0),
            ("dilation", layer.dilation, 1),
            ("groups", groups, 1),
        )
        if value != default
    }
    kernel = d.tensor((*channels, *layer.kernel), weights(domain))
    return call(x, kernel, *bias, **options)
