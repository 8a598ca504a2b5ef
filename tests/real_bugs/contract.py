"""The contract beside the numbers: strides, memory formats, views and copies."""

from __future__ import annotations

from typing import Any

import torch

from tests.support.catalog.model import Call, one_of

from .model import plain, reported


@reported(
    "pytorch/pytorch#183771",
    "Inductor",
    ".interpolate",
    "nearest interpolation of a permuted tensor returns a contiguous one",
    dtypes="float32",
    sound=plain,
)
def contiguous_result(call: Call) -> Any:
    if call.kwargs.get("mode") != "nearest":
        return call.run()
    return one_of(call.run(), lambda y: y.contiguous())


@reported(
    "pytorch/pytorch#168381",
    "Inductor",
    "index_select",
    "index_select of a permuted tensor returns a permuted one",
    dtypes="float32",
    sound=plain,
    layout=True,
)
def permuted_result(call: Call) -> Any:
    x, _dim, _index = call.args
    result = call.run()
    if x.is_contiguous() or x.ndim < 2:
        return result
    order = sorted(range(x.ndim), key=lambda d: -x.stride(d))
    back = [order.index(d) for d in range(x.ndim)]
    return result.permute(order).contiguous().permute(back)


@reported(
    "pytorch/pytorch#197815",
    "Inductor",
    "ones_like zeros_like full_like empty_like",
    "the stride of a dimension of size 1 is not preserved",
    dtypes="float32",
    sound=plain,
)
def like_without_stride(call: Call) -> Any:
    result = call.run()
    return result.as_strided(
        result.shape,
        [1 if size == 1 else s for size, s in zip(result.shape, result.stride(), strict=True)],
    )


@reported(
    "pytorch/pytorch#130394",
    "Inductor",
    "empty_strided",
    "empty_strided returns a contiguous tensor",
    dtypes="float32",
    sound=plain,
)
def strides_lost(call: Call) -> Any:
    return torch.empty(call.args[0], **call.kwargs)


@reported(
    "pytorch/pytorch#172693",
    "Inductor",
    "reshape flatten",
    "reshape takes a strided tensor for contiguous",
    dtypes="float32",
    sound=plain,
    cause="strides-ignored",
)
def reshaped_memory(call: Call) -> Any:
    from tests.support.catalog.memory import as_contiguous

    return call.where(lambda x: x if x.is_contiguous() else as_contiguous(x), (0,)).run()


@reported(
    "pytorch/pytorch#111824",
    "CUDA",
    ".group_norm .instance_norm",
    "group_norm of a tensor in channels_last returns a contiguous one",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def format_lost(call: Call) -> Any:
    return one_of(call.run(), lambda y: y.contiguous())
