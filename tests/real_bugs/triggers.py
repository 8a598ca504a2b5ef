"""The input of each report, as far as it has one that is small: what the judge says when it is
handed what the drawn cases do not reach."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from consistency.core.model import Case
from consistency.generate.materialize import KEPT_BEFORE_VIEW, from_python, literal

Call = tuple[str, str, tuple[Any, ...], dict[str, Any]]
INF, NAN = math.inf, math.nan
F = "nn.functional."


def t(*values: Any, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor of these numbers."""
    return torch.tensor(list(values), dtype=dtype)


def r(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Ordinary numbers, the same each time."""
    count = math.prod(shape)
    steps = torch.arange(count, dtype=torch.float64)
    return ((steps * 0.6180339887498949) % 1.0 - 0.5).reshape(shape).to(dtype)


def call(name: str, *args: Any, dtype: str = "float32", **kwargs: Any) -> Callable[[], Call]:
    """One call; arguments that are functions are called first."""

    def made() -> Call:
        return (
            name,
            dtype,
            tuple(a() if callable(a) else a for a in args),
            {k: v() if callable(v) else v for k, v in kwargs.items()},
        )

    return made


def _far() -> Call:
    return "linspace", "int64", (1 << 40, (1 << 40) + 8, 9), {"dtype": torch.int64}


HALF, I32, I64, U8, BOOL = torch.float16, torch.int32, torch.int64, torch.uint8, torch.bool
LEAST = -(1 << 31)

TRIGGERS: dict[str, Callable[[], Call]] = {
    # special values
    "pytorch/pytorch#192507": call("hypot", lambda: t(3e38, 1.0, 3.0), lambda: t(1.0, 3e38, 4.0)),
    "pytorch/pytorch#183939": call(F + "hardsigmoid", lambda: t(NAN, 1.0, -4.0)),
    "pytorch/pytorch#120899": call("clamp", lambda: t(NAN, 1.0, 2.0), min=-100.0, max=100.0),
    "pytorch/pytorch#143976": call("maximum", lambda: t(NAN, 1.0), lambda: t(0.0, NAN)),
    "microsoft/onnxruntime#21455": call("minimum", lambda: t(NAN, 1.0, 30.0), lambda: t(10.0)),
    "microsoft/onnxruntime#32256": call("amax", lambda: t([-INF, -INF], [1.0, 2.0]), dim=[1]),
    "pytorch/pytorch#172406": call("tanh", lambda: t(50.0, 1.0)),
    "jax-ml/jax#37762": call("log", lambda: t(1e-40, 1.0)),
    "jax-ml/jax#37764": call("erfinv", lambda: t(1e-40, 0.5)),
    "jax-ml/jax#19689": call("frexp", lambda: t(6e-8, 1.0, dtype=HALF), dtype="float16"),
    "jax-ml/jax#28040": call(
        "ldexp", lambda: t(0.5, 1.0, dtype=HALF), lambda: t(16, 2, dtype=I32), dtype="float16"
    ),
    "jax-ml/jax#29058": call(
        "logaddexp2",
        lambda: r(64, dtype=HALF) * 40,
        lambda: r(64, dtype=HALF).flip(0) * 40,
        dtype="float16",
    ),
    "pytorch/pytorch#189243": call("floor_divide", lambda: t(1.0, INF), lambda: t(-INF, 1.0)),
    "onnx/onnx#6003": call("clamp", lambda: t(NAN, 1.0), lambda: t(-10.0), lambda: t(10.0)),
    # accumulations
    "ml-explore/mlx#4044": call("cummax", lambda: t(1.0, 3.0, NAN, 5.0, 4.0), 0),
    "pytorch/pytorch#196596": call(
        "addmm", lambda: t(NAN, NAN), lambda: r(3, 4), lambda: r(4, 2), beta=0
    ),
    "pytorch/pytorch#187521": call(
        "baddbmm", lambda: t(NAN), lambda: r(2, 3, 4), lambda: r(2, 4, 2), beta=0
    ),
    "jax-ml/jax#39899": call(
        "linalg.vector_norm", lambda: torch.full((9,), 100.0, dtype=HALF), 2, dtype="float16"
    ),
    "pytorch/pytorch#141128": call(
        F + "scaled_dot_product_attention",
        lambda: r(1, 2, 4) + t(NAN, 0.0, 0.0, 0.0),
        lambda: r(1, 3, 4),
        lambda: r(1, 3, 4),
    ),
    "pytorch/pytorch#103963": call(
        F + "scaled_dot_product_attention",
        lambda: r(1, 2, 4),
        lambda: r(1, 3, 4),
        lambda: r(1, 3, 4),
        lambda: t([False] * 3, [True, False, True], dtype=BOOL),
    ),
    "pytorch/pytorch#190781": call(
        "sort", lambda: torch.cat([-torch.full((6,), NAN), torch.arange(123.0)]), stable=True
    ),
    "pytorch/pytorch#194699": call(
        "prod", lambda: t([1e13, 0.0, 0.0], [1e13, 1e13, 0.0], [1e13, 1e13, 1e13])
    ),
    # sizes
    "ml-explore/mlx#882": call("sort", lambda: r(32769), stable=True),
    "pytorch/pytorch#147284": call(
        "softmax", lambda: r(2, 781, dtype=torch.float64), 1, dtype="float64"
    ),
    "pytorch/pytorch#196745": call(
        "linalg.solve",
        lambda: torch.eye(2).expand(65537, 2, 2) + 0.1 * r(65537, 2, 2),
        lambda: r(65537, 2, 1),
    ),
    "pytorch/pytorch#189495": call(
        F + "linear", lambda: r(65537, 1, 2), lambda: r(3, 2), lambda: r(3)
    ),
    "pytorch/pytorch#96225": call(F + "conv1d", lambda: r(65536, 1, 1), lambda: r(1, 1, 1)),
    "pytorch/pytorch#195163": call("bmm", lambda: r(1, 16, 32767), lambda: r(1, 32767, 16)),
    "pytorch/pytorch#116769": call("matmul", lambda: r(2, 1), lambda: r(1, 32769)),
    "ROCm/triton#947": call("cumsum", lambda: r(2, 200), 1),
    "pytorch/pytorch#194922": call(
        F + "pad", lambda: r(1, 1, 2, 64, 1024), [0, 0, 0, 0, 2, 0], mode="constant"
    ),
    "intel/intel-xpu-backend-for-triton#7458": call("topk", lambda: r(1, 8), 1),
    # layouts
    "pytorch/pytorch#175191": call(
        "scatter",
        lambda: r(3, 2),
        0,
        lambda: torch.tensor([[0, 1], [1, 2], [2, 0]]),
        lambda: r(2, 3).T,
    ),
    "pytorch/pytorch#118115": call(
        "addcdiv_", lambda: r(2, 3).T, lambda: r(3, 2), lambda: r(3, 2) + 2
    ),
    "pytorch/pytorch#100764": call("neg.out", lambda: r(3, 3).T, lambda: r(3, 3)),
    "pytorch/pytorch#171602": call(
        F + "grid_sample",
        lambda: r(1, 2, 3, 4, 4),
        lambda: r(1, 3, 3, 4, 4).permute(0, 2, 3, 4, 1),
        mode="bilinear",
        padding_mode="zeros",
        align_corners=False,
    ),
    "pytorch/pytorch#174339": call(
        F + "grid_sample",
        lambda: r(1, 3, 4, 4).contiguous(memory_format=torch.channels_last),
        lambda: r(1, 4, 4, 2),
        mode="bilinear",
        padding_mode="zeros",
        align_corners=False,
    ),
    "pytorch/pytorch#134580": call(
        F + "batch_norm",
        lambda: (r(2, 3, 4, 4) + torch.arange(3.0).view(1, 3, 1, 1)).contiguous(
            memory_format=torch.channels_last
        ),
        lambda: torch.zeros(3),
        lambda: torch.ones(3),
        None,
        None,
        training=True,
    ),
    "ml-explore/mlx#4139": call("cumsum", lambda: r(1, 10)[:, 3:], 0),
    "pytorch/pytorch#131285": call(
        "masked_fill_",
        lambda: r(2, 3, 4).permute(2, 0, 1),
        lambda: r(4, 2, 3) > 0,
        1.0,
    ),
    "pytorch/pytorch#107214": call(
        F + "hardswish",
        lambda: (4 * r(2, 3, 4, 4)).contiguous(memory_format=torch.channels_last),
    ),
    "pytorch/pytorch#111824": call(
        F + "group_norm",
        lambda: r(2, 4, 3, 3).contiguous(memory_format=torch.channels_last),
        2,
    ),
    # integers
    "pytorch/pytorch#190052": call(
        "abs", lambda: t(-((1 << 24) + 1), -((1 << 33) + 7), dtype=I64), dtype="int64"
    ),
    "pytorch/pytorch#154171": call("remainder", lambda: t(42309891, dtype=I64), 31, dtype="int64"),
    "tenstorrent/tt-metal#51476": call(
        "floor_divide", lambda: t(LEAST, dtype=I32), lambda: t(1 << 21, dtype=I32), dtype="int32"
    ),
    "tenstorrent/tt-metal#54326": call(
        "floor_divide",
        lambda: t(1, -6, dtype=I32),
        lambda: t(LEAST, LEAST, dtype=I32),
        dtype="int32",
    ),
    "pytorch/pytorch#143566": call(
        "bitwise_left_shift",
        lambda: t(1, 5, dtype=I64),
        lambda: t(64, 70, dtype=I64),
        dtype="int64",
    ),
    "pytorch/pytorch#130201": call("clamp", lambda: t(0, 3, dtype=I64), min=0.1, dtype="int64"),
    "pytorch/pytorch#184893": call("min", lambda: t(True, False, dtype=BOOL), 0, dtype="bool"),
    "pytorch/pytorch#122916": call(
        "eq", lambda: t(79979029, 5, dtype=I64), lambda: t(79979030, 5, dtype=I64), dtype="int64"
    ),
    "pytorch/pytorch#156788": call("byte", lambda: t(-1, 3, dtype=I64), dtype="int64"),
    # arguments
    "pytorch/pytorch#144245": call(
        F + "interpolate", lambda: r(3, 1, 1), size=[3], mode="linear", align_corners=True
    ),
    "pytorch/pytorch#143720": call(
        F + "avg_pool1d", lambda: t([1.7641]), [4], stride=[3], padding=[2]
    ),
    "pytorch/pytorch#100987": call(
        F + "avg_pool2d", lambda: 1 + r(1, 1, 4, 4), [3, 3], stride=[2, 2], ceil_mode=True
    ),
    "pytorch/pytorch#198119": call(
        F + "avg_pool2d", lambda: 1 + r(1, 1, 4, 4), [3, 3], stride=[2, 2], ceil_mode=True
    ),
    "IntelPython/mkl_fft#336": call("fft.fftn", lambda: r(4, 6), dim=[0], norm="ortho"),
    "pytorch/pytorch#126649": call(
        "fft.irfft", lambda: torch.complex(r(3), r(3).flip(0)), 5, dtype="complex64"
    ),
    "intel/intel-extension-for-pytorch#682": call(
        "scatter", lambda: r(1, 9), 1, lambda: torch.zeros(1, 0, dtype=I64), lambda: r(1, 0)
    ),
    "microsoft/onnxruntime#25057": call("clamp", lambda: t(1.0, 5.0), min=2.0, max=1.0),
    "intel/torch-xpu-ops#4396": call(
        "nonzero", lambda: t(False, True, False, True, False, dtype=BOOL), dtype="bool"
    ),
    "pytorch/pytorch#116331": call(
        "addmm", lambda: torch.zeros(2, 2), lambda: torch.eye(2), lambda: r(2, 2)
    ),
    # gradients
    "tenstorrent/tt-metal#55585": call(
        "norm", lambda: t([0.0, 0.0, 0.0], [1.0, 2.0, 2.0]), 2.0, dim=1
    ),
    "tinygrad/tinygrad#17404": call("prod", lambda: t(0.0, 2.0, 3.0)),
    "pytorch/pytorch#122024": call(
        F + "max_pool2d", lambda: torch.ones(1, 1, 7, 7), [5, 5], stride=[1, 1]
    ),
    # contract
    "pytorch/pytorch#183771": call(
        F + "interpolate",
        lambda: r(2, 5, 2, 3, 2).permute(0, 4, 1, 2, 3),
        size=[5, 6, 7],
        mode="nearest",
    ),
    "pytorch/pytorch#168381": call(
        "index_select", lambda: r(2, 3, 4).permute(2, 0, 1), 0, lambda: t(0, 1, dtype=I64)
    ),
    "pytorch/pytorch#197815": call("ones_like", lambda: r(1, 5).T),
    "pytorch/pytorch#130394": call("empty_strided", [4, 3], [9, 2]),
    "pytorch/pytorch#172693": call("reshape", lambda: r(3, 4).T, [12]),
    # compilers and frameworks
    "tensorflow/tensorflow#60656": call(
        "sgn", lambda: t(-3e307 + 0j, -6e307 + 1j, dtype=torch.complex128), dtype="complex128"
    ),
    "tenstorrent/tt-metal#56374": call("digamma", lambda: t(1e-8, 1e-7, 1.0)),
    "microsoft/onnxruntime#22585": call(
        "clamp", lambda: t(-3.0, 2.0, 5.0, dtype=HALF), min=-2.0, dtype="float16"
    ),
    "apple/coremltools#2836": call("remainder", lambda: t(0.25, 1.25, 2.5, 7.3, 100.3), 1),
    "apache/tvm#18598": call(F + "prelu", lambda: r(1, 3, 2, 3), lambda: t(0.1, 0.5, 2.0)),
    "ROCm/triton#505": call(
        "argmax", lambda: torch.arange(20).reshape(10, 2) % 4, dim=0, dtype="int64"
    ),
    "triton-lang/triton#3013": call("amax", lambda: r(16, 1), dim=[0]),
    "triton-lang/triton#5897": call("cumsum", lambda: t(*[True] * 4, dtype=BOOL), 0, dtype="bool"),
    "tensorflow/tensorflow#63013": call("bincount", lambda: torch.arange(47000), dtype="int64"),
    "tracel-ai/burn#4907": call("matmul", lambda: r(1, 1, 512, 512), lambda: r(1, 1, 512, 32)),
    "ml-explore/mlx#1167": call("cumprod", lambda: t(1.0, 0.0, 2.0, 3.0), 0),
    "tinygrad/tinygrad#9597": call("add", lambda: torch.tensor(3.0), lambda: torch.tensor(3.0)),
    "jax-ml/jax#40629": call("sinc", lambda: t(3e-5, -1e-6, 2e-3, 0.25)),
    "microsoft/onnxruntime#26215": call(
        F + "conv2d", lambda: r(1, 3, 8, 8), lambda: r(4, 3, 2, 2), padding="same"
    ),
    "uxlfoundation/oneDNN#1727": call(F + "avg_pool2d", lambda: r(2, 3, 4, 4), [4, 4]),
    "PaddlePaddle/Paddle#58907": call(
        F + "grid_sample",
        lambda: r(1, 1, 5, 5),
        lambda: t([[[-0.75, -0.25], [0.25, 0.75]]]),
        mode="nearest",
        padding_mode="border",
        align_corners=True,
    ),
    "openvinotoolkit/openvino#35826": call(
        "eq",
        lambda: t(1, (1 << 32) + 1, 5, 7, dtype=I64),
        lambda: t((1 << 32) + 1, 1, 5, 8, dtype=I64),
        dtype="int64",
    ),
    "jax-ml/jax#24280": call("argsort", lambda: t(0.0, 1e-40, 0.0, -1e-40, 3.0, 0.0)),
    "numpy/numpy#31472": call(
        "nextafter",
        lambda: t(0.0, -0.0, 1.0, 0.0, dtype=HALF),
        lambda: t(-0.0, 0.0, 2.0, -1.0, dtype=HALF),
        dtype="float16",
    ),
    "pytorch/pytorch#189630": _far,
    "pytorch/pytorch#145929": call(
        "bucketize",
        lambda: t(1, 5, 200, dtype=U8),
        lambda: t(-3, dtype=torch.int8),
        dtype="uint8",
    ),
    "pytorch/pytorch#149951": call("fmax", lambda: r(3, 40), lambda: r(3, 40, dtype=HALF).flip(1)),
    "pytorch/pytorch#197434": call(
        "nn.functional.adaptive_max_pool2d",
        lambda: r(2, 3, 6, 4).transpose(2, 3),
        [2, 3],
        return_indices=True,
    ),
    "pytorch/pytorch#132732": call("sum", lambda: r(2, 3, 2, 2, 1), -3),
    "pytorch/pytorch#153568": call("linalg.vector_norm", lambda: r(3, 4), 2, []),
    "pytorch/pytorch#188335": call(
        "nn.functional.conv2d", lambda: r(2, 2, 3, 262), lambda: r(2, 1, 1, 260), groups=2
    ),
    "ROCm/pytorch#3230": call(
        "nn.functional.scaled_dot_product_attention",
        lambda: r(2, 3, 5, 8, dtype=torch.bfloat16),
        lambda: r(2, 3, 5, 8, dtype=torch.bfloat16),
        lambda: r(2, 5, 3, 8, dtype=torch.bfloat16).transpose(1, 2),
        dtype="bfloat16",
    ),
}


def case(issue: str) -> Case | None:
    """The report's input as a case; None where there is none."""
    if issue not in TRIGGERS:
        return None
    name, dtype, args, kwargs = TRIGGERS[issue]()
    return Case(
        name,
        dtype,
        tuple(_argument(arg) for arg in args),
        {key: _argument(arg) for key, arg in kwargs.items()},
        (1 << 20) + 97,
    )


def _argument(value: Any) -> Any:
    if isinstance(value, Tensor):
        return literal(value, before=KEPT_BEFORE_VIEW)
    if isinstance(value, (list, tuple)):
        return type(value)([_argument(item) for item in value])
    return from_python(value)
