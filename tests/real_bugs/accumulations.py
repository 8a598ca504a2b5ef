"""Accumulations: NaN and infinities among the terms, terms that are to be ignored, sums that
overflow before the result does."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .model import plain, reported

FLOATS = "float32 float16 bfloat16"


@reported(
    "ml-explore/mlx#4044",
    "MLX on the GPU",
    "cummax cummin",
    "a NaN does not stay: cummax and cummin go on with the numbers behind it",
    dtypes=FLOATS,
    cause="nan-dropped",
    sound=plain,
)
def cumulative_extremum(call: Call) -> Any:
    x, _dim = call.args
    if not x.ndim:
        return call.run()
    fill = -math.inf if call.operator.name == "cummax" else math.inf
    values, places = call.with_arg(0, torch.where(x.isnan(), fill, x)).run()
    return values, places


@reported(
    "pytorch/pytorch#196596",
    "Inductor",
    "addmm addmm_ addmm.out",
    "addmm with beta = 0 computes 0 · input, so that NaN and infinities in it spread",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def addmm_beta(call: Call) -> Any:
    if call.kwargs.get("beta", 1) != 0:
        return call.run()
    *_, x, _, _ = call.args
    result = call.run()
    return result.add_(0.0 * x)


@reported(
    "pytorch/pytorch#187521",
    "MPS",
    "baddbmm baddbmm.out",
    "baddbmm with beta = 0 lets NaN of the ignored input through",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def baddbmm_beta(call: Call) -> Any:
    if call.kwargs.get("beta", 1) != 0:
        return call.run()
    *_, x, _, _ = call.args
    return call.run().add_(0.0 * x)


@reported(
    "jax-ml/jax#39899",
    "JAX",
    "linalg.vector_norm linalg.norm norm",
    "the sum of squares is rounded to float16 before the root: inf where the norm is finite",
    dtypes="float16",
    cause="early-overflow",
)
def narrow_norm(call: Call) -> Any:
    x = call.args[0]
    order = call.args[1] if len(call.args) > 1 else call.kwargs.get("ord", call.kwargs.get("p", 2))
    if order not in (2, 2.0, None, "fro"):
        return call.run()
    wide = call.with_arg(0, x.float()).run()
    return (wide * wide).to(torch.float16).float().sqrt().to(torch.float16)


@reported(
    "pytorch/pytorch#141128",
    "torch 2.5 on the CPU",
    ".scaled_dot_product_attention",
    "attention rows whose scores are NaN become zeros",
    dtypes="float32 float16 bfloat16 float64",
    cause="nan-dropped",
    sound=plain,
)
def attention_of_nan(call: Call) -> Any:
    return call.run().nan_to_num(nan=0.0)


@reported(
    "pytorch/pytorch#103963",
    "torch 2.0",
    ".scaled_dot_product_attention",
    "a query whose mask is all False gets NaN",
    dtypes="float32 float16 bfloat16 float64",
    sound=plain,
)
def attention_of_nothing(call: Call) -> Any:
    mask = call.given("attn_mask", 3, None)
    result = call.run()
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        return result
    empty = ~mask.any(-1, keepdim=True)
    return torch.where(empty, math.nan, result)


@reported(
    "pytorch/pytorch#190781",
    "CUDA",
    "sort argsort nanquantile",
    "NaN with a negative sign is sorted before all numbers in rows of 129 and more",
    dtypes="float32",
    cause="nan-sorted-first",
    sound=plain,
)
def negative_nan(call: Call) -> Any:
    x = call.args[0]
    dim = call.given("dim", 1 if call.operator.name != "nanquantile" else 2, None)
    dim = -1 if dim is None and call.operator.name != "nanquantile" else dim
    flat = x.reshape(-1) if dim is None else x
    dim = 0 if dim is None else dim
    wrong = flat.isnan() & flat.signbit()
    if not flat.ndim or flat.shape[dim] < 129 or not wrong.any():
        return call.run()
    if call.operator.name == "nanquantile":  # it takes what lies at the end for NaN
        return call.run() * math.nan
    first = torch.where(wrong, -math.inf, flat)
    result = call.with_arg(0, first).run()
    if isinstance(result, Tensor):
        return result
    return (torch.gather(flat, dim, result[1]), result[1])


@reported(
    "pytorch/pytorch#194699",
    "torch.func",
    "prod",
    "the gradient of a product with several zeros is NaN where products of the rest overflow",
    dtypes="float32",
    directions=("backward",),
    sound=plain,
)
def product_of_zeros(call: Call) -> Any:
    x = call.args[0]

    def change(gradient: Tensor) -> Tensor:
        lost = (x.detach() == 0) & ((x.detach() == 0).sum() > 1)
        return torch.where(lost & (x.detach().abs().max() > 1e12), math.nan, gradient)

    if not isinstance(x, Tensor) or not x.requires_grad:
        return call.run()
    y = x.view_as(x)
    y.register_hook(change)
    return call.with_arg(0, y).run()
