"""Reports of compilers and other frameworks, measured before anything was changed for them:
products, solutions, transforms, views."""

from __future__ import annotations

from typing import Any

import torch

from tests.support.catalog.memory import as_contiguous
from tests.support.catalog.model import Call

from .model import plain, reported


@reported(
    "ml-explore/mlx#1163",
    "MLX on the GPU",
    "matmul mm mv",
    "a column of a matrix as second factor is read in the order of memory",
    dtypes="float32",
    cause="strides-ignored",
    sound=plain,
)
def column_as_factor(call: Call) -> Any:
    factor = call.args[1]
    if factor.ndim > 1 and factor.shape[-1] != 1:
        return call.run()
    return call.where(lambda x: x if x.is_contiguous() else as_contiguous(x), (1,)).run()


@reported(
    "tracel-ai/burn#4907",
    "burn on WGPU",
    "matmul",
    "products of 512 terms and more in 512 rows and more are zeros",
    dtypes="float32",
    cause="zero",
    sound=plain,
)
def product_of_zeros(call: Call) -> Any:
    result, x = call.run(), call.args[0]
    large = x.ndim > 1 and min(x.shape[-2:]) >= 512
    return torch.zeros_like(result) if large else result


@reported(
    "tracel-ai/burn#3629",
    "burn on WGPU",
    "narrow",
    "a slice of all elements of a permuted tensor is read in the order of memory",
    dtypes="float32",
    cause="strides-ignored",
    sound=plain,
)
def slice_of_all(call: Call) -> Any:
    x, dim, _, length = call.args[:4]
    if x.is_contiguous() or length != x.shape[dim]:
        return call.run()
    return call.with_arg(0, as_contiguous(x)).run()


@reported(
    "pytorch/executorch#11718",
    "ExecuTorch, Core ML",
    "diagonal",
    "the diagonal is read in the order of memory",
    dtypes="float32",
    cause="strides-ignored",
    sound=plain,
)
def diagonal_in_line(call: Call) -> Any:
    result = call.run()
    if call.args[0].ndim != 2 or not result.numel():
        return result
    return result.as_strided(result.shape, (1,), result.storage_offset())


@reported(
    "ml-explore/mlx#3483",
    "MLX 0.31.2",
    "index_add",
    "what is added along an inner dimension is that of the first one in the batch",
    dtypes="float32",
    cause="depends-on-batch",
    sound=plain,
)
def added_from_the_first(call: Call) -> Any:
    x, dim, _, source = call.args[:4]
    if x.ndim < 2 or dim % x.ndim == 0 or source.ndim != x.ndim:
        return call.run()
    return call.with_arg(3, source[:1].expand_as(source)).run()


@reported(
    "jax-ml/jax#13979",
    "JAX on CUDA",
    "linalg.solve_triangular",
    "of systems of 257 x 257 and more, those from the 256th on are not solved",
    dtypes="float32 float64",
    sound=plain,
)
def unsolved_systems(call: Call) -> Any:
    a, b = call.args[:2]
    result = call.run()
    if a.ndim < 3 or a.shape[-1] <= 256 or len(a) < 256:
        return result
    changed = result.clone()
    changed[255:] = b.expand_as(result)[255:]
    return changed


@reported(
    "jax-ml/jax#23827",
    "JAX on CUDA",
    "fft.ifft",
    "the factor 1 / n is rounded to float32",
    dtypes="complex128",
    cause="float32-instead-of-float64",
    sound=plain,
)
def factor_in_float32(call: Call) -> Any:
    x = call.args[0]
    n = call.given("n", 1, None) or x.shape[call.given("dim", 2, -1)]
    return call.run() * (torch.tensor(1 / n, dtype=torch.float32).item() * n)
