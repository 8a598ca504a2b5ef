"""Reports of compilers and other frameworks, measured before anything was changed for them:
reductions and scans."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .model import plain, reported


@reported(
    "tensorflow/tensorflow#120232",
    "TensorFlow without XLA",
    "argmax",
    "the position of the largest element skips NaN",
    dtypes="float32 float64",
    cause="nan-dropped",
    sound=plain,
)
def position_beside_nan(call: Call) -> Any:
    x = call.args[0]
    return call.with_arg(0, torch.where(x.isnan(), torch.full_like(x, -math.inf), x)).run()


@reported(
    "ROCm/triton#505",
    "Inductor on ROCm",
    "argmax argmin",
    "of equal elements in a column, the last one's position is given",
    dtypes="int64 int32 float32",
    sound=plain,
)
def last_of_equal(call: Call) -> Any:
    x, dim = call.args[0], call.given("dim", 1, None)
    if dim is None or not x.ndim or dim % x.ndim == x.ndim - 1:
        return call.run()
    return x.shape[dim] - 1 - call.with_arg(0, x.flip(dim)).run()


@reported(
    "ml-explore/mlx#577",
    "MLX on the GPU",
    "amax max",
    "the maximum skips NaN",
    dtypes="float32 float16",
    cause="nan-dropped",
    sound=plain,
)
def maximum_beside_nan(call: Call) -> Any:
    x = call.args[0]
    if len(call.args) > 1 and isinstance(call.args[1], Tensor):
        return call.run()
    return call.with_arg(0, torch.where(x.isnan(), torch.full_like(x, -math.inf), x)).run()


@reported(
    "triton-lang/triton#3013",
    "Triton 2.2",
    "amax sum",
    "of a single column only the first half of the rows counts",
    dtypes="float32",
    cause="terms-dropped",
    sound=plain,
)
def half_of_a_column(call: Call) -> Any:
    x, dim = call.args[0], call.given("dim", 1, None)
    dims = [dim] if isinstance(dim, int) else list(dim or ())
    if x.ndim != 2 or x.shape[1] != 1 or x.shape[0] < 2 or [d % 2 for d in dims] != [0]:
        return call.run()
    return call.with_arg(0, x[: (x.shape[0] + 1) // 2]).run()


@reported(
    "triton-lang/triton#5897",
    "Triton",
    "cumsum",
    "the running sum of bool is the running exclusive or",
    dtypes="bool",
    sound=plain,
)
def exclusive_or(call: Call) -> Any:
    return call.run() % 2


@reported(
    "tracel-ai/burn#1388",
    "burn on WGPU",
    "all",
    "all of a comparison's result is False",
    dtypes="bool",
    sound=plain,
)
def never_all(call: Call) -> Any:
    result = call.run()
    return result if call.args[0].numel() < 2 else torch.zeros_like(result)


@reported(
    "tensorflow/tensorflow#115731",
    "TensorFlow on the CPU",
    "cumsum",
    "running sums of bfloat16 are rounded at every step",
    dtypes="bfloat16",
    cause="bfloat16-accumulator",
    sound=plain,
)
def rounded_at_every_step(call: Call) -> Any:
    x, dim = call.args[0], call.given("dim", 1, 0)
    if not x.ndim or not x.numel() or call.kwargs.get("dtype") is not None:
        return call.run()
    rows, total = [], torch.zeros_like(x.select(dim, 0))
    for row in x.unbind(dim):
        total = total + row
        rows.append(total)
    return torch.stack(rows, dim)


@reported(
    "tensorflow/tensorflow#63013",
    "TensorFlow on the GPU",
    "bincount",
    "numbers beyond 46,340 are not counted: their squares leave 32 bits",
    dtypes="int64 int32",
    sound=plain,
)
def lost_counts(call: Call) -> Any:
    result = call.run().clone()
    result[46341:] = 0
    return result
