"""Calls with the shapes of layers of published models, which :mod:`wide_cases` writes first: wrong
results are reported of them, and no variation of a small call has their sizes together.

Each row names an operator, the shapes of its tensors, its other arguments, and where the shapes are
from. A shape that follows a number n holds positions below n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe

F = "nn.functional."
Shape = tuple[int, ...]
Row = tuple[str, tuple[Any, ...], tuple[Any, ...], dict[str, Any], str]
LAYERS: tuple[Row, ...] = (
    (f"{F}conv2d", ((1, 3, 112, 112), (64, 3, 7, 7)), (), {"stride": 2, "padding": 3}, "ResNet"),
    (f"{F}conv2d", ((1, 64, 56, 56), (256, 64, 1, 1)), (), {}, "ResNet-50"),
    (f"{F}conv2d", ((1, 128, 28, 28), (128, 128, 3, 3)), (), {"padding": 1}, "ResNet-50"),
    (f"{F}conv2d", ((2, 104, 56, 56), (208, 104, 1, 1)), (), {}, "RegNetY-400MF"),
    (f"{F}conv2d", ((1, 104, 28, 28), (208, 8, 3, 3)), (),
     {"stride": 2, "padding": 1, "groups": 13}, "RegNetY-400MF"),
    (f"{F}conv2d", ((1, 96, 57, 57), (96, 1, 3, 3)), (),
     {"stride": 2, "padding": 1, "groups": 96}, "MobileNetV2"),
    (f"{F}conv2d", ((1, 3, 224, 224), (192, 3, 16, 16)), (), {"stride": 16}, "ViT-Ti/16"),
    (f"{F}conv2d", ((1, 256, 33, 33), (48, 256, 3, 3)), (), {"padding": 12, "dilation": 12},
     "DeepLabV3"),
    (f"{F}conv1d", ((1, 1, 16000), (64, 1, 10)), (), {"stride": 5}, "wav2vec 2.0"),
    (f"{F}conv1d", ((1, 80, 3000), (96, 80, 3)), (), {"padding": 1}, "Whisper"),
    (f"{F}conv1d", ((1, 256, 201), (256, 16, 128)), (), {"padding": 64, "groups": 16},
     "wav2vec 2.0"),
    (f"{F}conv3d", ((1, 3, 8, 56, 56), (24, 3, 3, 7, 7)), (),
     {"stride": [1, 2, 2], "padding": [1, 3, 3]}, "R3D"),
    (f"{F}conv_transpose2d", ((1, 64, 32, 32), (64, 32, 4, 4)), (),
     {"stride": 2, "padding": 1}, "DCGAN"),
    (f"{F}conv_transpose2d", ((1, 128, 28, 28), (128, 64, 2, 2)), (), {"stride": 2}, "U-Net"),
    (f"{F}conv_transpose1d", ((1, 128, 100), (128, 64, 16)), (), {"stride": 8, "padding": 4},
     "HiFi-GAN"),
    (f"{F}linear", ((197, 192), (768, 192), (768,)), (), {}, "ViT-Ti/16"),
    (f"{F}linear", ((1, 1024), (4096, 1024), (4096,)), (), {}, "one token of a language model"),
    (f"{F}linear", ((4, 7, 768), (768, 768)), (), {}, "BERT"),
    ("bmm", ((12, 197, 64), (12, 64, 197)), (), {}, "ViT-B/16"),
    ("matmul", ((2, 12, 128, 64), (2, 12, 64, 128)), (), {}, "BERT"),
    ("matmul", ((1, 1, 2048), (2048, 1000)), (), {}, "one token of a language model"),
    ("addmm", ((768,), (128, 768), (768, 768)), (), {}, "BERT"),
    ("baddbmm", ((12, 128, 1), (12, 128, 64), (12, 64, 128)), (), {"alpha": 0.125}, "Bloom"),
    (f"{F}scaled_dot_product_attention", ((1, 12, 197, 64),) * 3, (), {}, "ViT-B/16"),
    (f"{F}scaled_dot_product_attention", ((1, 8, 256, 128),) * 3, (), {"is_causal": True},
     "Llama"),
    (f"{F}scaled_dot_product_attention",
     ((1, 16, 1, 128), (1, 16, 513, 128), (1, 16, 513, 128)), (), {}, "one token of Llama"),
    (f"{F}scaled_dot_product_attention", ((1, 8, 1024, 40), (1, 8, 77, 40), (1, 8, 77, 40)), (), {},
     "Stable Diffusion"),
    (f"{F}layer_norm", ((2, 197, 768),), ([768],), {}, "ViT-B/16"),
    (f"{F}rms_norm", ((4, 64, 2048),), ([2048], None, None), {}, "Llama"),
    (f"{F}group_norm", ((1, 320, 32, 32),), (32,), {}, "Stable Diffusion"),
    (f"{F}instance_norm", ((2, 64, 64, 64),), (), {}, "CycleGAN"),
    (f"{F}embedding", (1000, (4, 128), (1000, 384)), (), {}, "MiniLM"),
    (f"{F}cross_entropy", ((128, 4000), 4000, (128,)), (), {}, "a language model"),
    (f"{F}cross_entropy", ((1, 21, 129, 129), 21, (1, 129, 129)), (), {}, "DeepLabV3"),
    ("softmax", ((1, 12, 197, 197),), (-1,), {}, "ViT-B/16"),
    ("log_softmax", ((128, 4000),), (-1,), {}, "a language model"),
    (f"{F}max_pool2d", ((1, 64, 112, 112), ), (3, 2, 1), {}, "ResNet"),
    (f"{F}max_pool2d", ((1, 192, 27, 27), ), (5, 1, 2), {}, "SPPF of YOLO"),
    (f"{F}adaptive_avg_pool2d", ((2, 512, 7, 7), ), (1,), {}, "ResNet"),
    (f"{F}avg_pool2d", ((2, 512, 7, 7), ), (7,), {}, "DenseNet"),
    (f"{F}interpolate", ((1, 64, 28, 28),), (),
     {"scale_factor": 2.0, "mode": "bilinear", "align_corners": False}, "FPN"),
    (f"{F}interpolate", ((1, 192, 14, 14),), (),
     {"size": [16, 16], "mode": "bicubic", "align_corners": False}, "DINOv2"),
    (f"{F}pixel_shuffle", ((1, 64, 48, 48),), (2,), {}, "ESPCN"),
    (f"{F}pad", ((1, 64, 64, 64),), ([3, 3, 3, 3],), {"mode": "reflect"}, "CycleGAN"),
    (f"{F}gelu", ((197, 3072),), (), {}, "ViT-B/16"),
    (f"{F}silu", ((16, 5632),), (), {}, "Llama"),
    (f"{F}glu", ((2, 256, 1024),), (1,), {}, "Conformer"),
    ("topk", ((4, 32000),), (50,), {}, "sampling of a language model"),
    ("sort", ((4, 32000),), (), {"descending": True}, "sampling of a language model"),
    ("cumsum", ((4, 32000),), (-1,), {}, "sampling of a language model"),
    ("argmax", ((4, 32000),), (-1,), {}, "greedy decoding"),
    ("logsumexp", ((4, 32000),), (-1,), {}, "a language model"),
    ("fft.rfft", ((101, 400),), (), {}, "a spectrogram"),
    ("fft.rfft2", ((1, 3, 224, 224),), (), {}, "FNet"),
    ("mean", ((2, 512, 7, 7),), ([2, 3],), {}, "global average pooling"),
    ("var", ((2, 64, 56, 56),), ([0, 2, 3],), {}, "batch statistics"),
    ("sum", ((8, 197, 768),), ([0, 1],), {}, "the gradient of a bias"),
    ("index_select", ((1000, 384), 1000, (513,)), (), {}, "an embedding"),
    ("roll", ((1, 56, 56, 96),), ([-3, -3], [1, 2]), {}, "Swin"),
)  # fmt: skip


def calls(operator: str, dtype: str) -> Iterator[Case]:
    """The calls of an operator with normal numbers, and positions below the number that stands
    before their shape."""
    for name, described, others, options, _ in LAYERS:
        if name == operator:
            tensors = tuple(_tensors(described, dtype))
            if operator == "index_select":
                tensors = (tensors[0], 0, tensors[1])
            cotangent = 1 << 20 if operators.get(operator).differentiable else 0
            yield Case(operator, dtype, (*tensors, *others), dict(options), cotangent)


def _tensors(described: tuple[Any, ...], dtype: str) -> Iterator[TensorRecipe]:
    below = 0
    for number, shape in enumerate(described):
        if isinstance(shape, int):
            below = shape
            continue
        count = math.prod(shape)
        stop = 1_000_003 * (number + 1) + 2 * count
        if below:
            yield TensorRecipe(shape, "int64", ("integers", 0, below - 1), stop)
            below = 0
        else:
            yield TensorRecipe(shape, dtype, ("normal", 0.0, 1.0), stop)
