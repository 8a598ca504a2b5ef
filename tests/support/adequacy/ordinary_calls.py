"""Ordinary calls of the operators that reports name most: nothing about them is degenerate, so a
defect that depends on one condition shows in the variation that meets it. Drawn cases are rarely
so."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe

UNIFORM = ("uniform", -1.0, 1.0)
N = "nn.functional."
# Operators by the shapes of their tensors; numbers and options after them.
CALLS: dict[str, tuple[tuple[tuple[int, ...], ...], tuple[Any, ...], dict[str, Any]]] = {
    f"{N}linear": (((2, 5, 4), (3, 4), (3,)), (), {}),
    f"{N}conv1d": (((2, 4, 9), (6, 4, 3)), (), {}),
    f"{N}conv2d": (((2, 4, 7, 6), (5, 4, 3, 3)), (), {}),
    f"{N}conv_transpose2d": (((2, 4, 5, 6), (4, 5, 3, 3)), (), {}),
    f"{N}max_pool2d": (((2, 3, 6, 8), ), (2,), {}),
    f"{N}avg_pool2d": (((2, 3, 6, 8), ), (2,), {}),
    f"{N}adaptive_avg_pool2d": (((2, 3, 6, 8), ), (3,), {}),
    f"{N}gelu": (((2, 3, 4), ), (), {}),
    f"{N}silu": (((2, 3, 4), ), (), {}),
    f"{N}softplus": (((2, 3, 4), ), (), {}),
    f"{N}glu": (((2, 3, 4), ), (), {}),
    "matmul": (((2, 5, 4), (2, 4, 3)), (), {}),
    "bmm": (((2, 5, 4), (2, 4, 3)), (), {}),
    "mm": (((5, 4), (4, 3)), (), {}),
    "mv": (((5, 4), (4,)), (), {}),
    "addmm": (((5, 3), (5, 4), (4, 3)), (), {}),
    "baddbmm": (((2, 5, 3), (2, 5, 4), (2, 4, 3)), (), {}),
    "add": (((2, 3, 4, 5), (2, 3, 4, 5)), (), {}),
    "sub": (((2, 3, 4, 5), (2, 3, 4, 5)), (), {}),
    "mul": (((2, 3, 4, 5), (2, 3, 4, 5)), (), {}),
    "maximum": (((2, 3, 4, 5), (2, 3, 4, 5)), (), {}),
    "minimum": (((2, 3, 4, 5), (2, 3, 4, 5)), (), {}),
    "lerp": (((3, 4), (3, 4), (3, 4)), (), {}),
    "addcmul": (((3, 4), (3, 4), (3, 4)), (), {}),
    "tril": (((2, 5, 4), ), (), {}),
    "flip": (((2, 3, 4), ), ((1,),), {}),
    "softmax": (((2, 3, 5), ), (2,), {}),
    "log_softmax": (((2, 3, 5), ), (2,), {}),
    "topk": (((6, 5), ), (2,), {}),
    "sort": (((6, 5), ), (), {"dim": 1}),
    "argsort": (((6, 5), ), (), {"dim": 1}),
    "cumsum": (((6, 5), ), (1,), {}),
    "logcumsumexp": (((6, 5), ), (1,), {}),
    "sum": (((2, 3, 4, 5), ), (), {"dim": (1,)}),
    "mean": (((2, 3, 4, 5), ), (), {"dim": (1,)}),
    "amax": (((2, 3, 4, 5), ), (), {"dim": (1,)}),
    "amin": (((2, 3, 4, 5), ), (), {"dim": (1,)}),
    "var": (((2, 3, 4, 5), ), (), {"dim": (1,)}),
    "std": (((2, 3, 4, 5), ), (), {"dim": (1,)}),
    "logsumexp": (((2, 3, 4, 5), ), ((1,),), {}),
    "argmax": (((6, 5), ), (), {"dim": 1}),
    "argmin": (((6, 5), ), (), {"dim": 1}),
}  # fmt: skip
# Of these a call without a dimension is ordinary, too.
WHOLE = ("sum", "mean", "amax", "amin", "var", "std", "argmax", "argmin", "max", "min")
ATTENTION: tuple[dict[str, Any], ...] = ({}, {"is_causal": True})
FEW_QUERIES = ((1, 64), (8, 128), (33, 96))  # and the size of a head: what models have
# Images, the size that they are brought to, modes.
RESIZED: tuple[tuple[tuple[int, ...], list[int], tuple[str, ...]], ...] = (
    ((2, 3, 2), [9], ("linear", "nearest")),
    ((2, 3, 7), [4], ("linear", "nearest-exact", "area")),
    ((2, 3, 5, 4), [9, 7], ("bilinear", "bicubic", "nearest", "area")),
    ((2, 3, 9, 7), [4, 5], ("bilinear", "bicubic", "nearest-exact")),
    ((2, 3, 3, 4, 2), [5, 3, 4], ("trilinear", "nearest")),
)
SCALES = (1.5, 0.6)  # by which no size is a whole one
ALIGNED = frozenset({"linear", "bilinear", "bicubic", "trilinear"})


def of(operator: str, dtype: str) -> Iterator[Case]:
    """The ordinary calls of an operator in floating-point numbers; none where there are none."""
    if operator == f"{N}scaled_dot_product_attention":
        tensors = tensors_of(((2, 2, 5, 4), (2, 2, 6, 4), (2, 2, 6, 4), (5, 6)), dtype)
        yield Case(operator, dtype, tensors[:3], {"attn_mask": tensors[3]})
        yield from (Case(operator, dtype, tensors[:3], options) for options in ATTENTION)
        for queries, size in FEW_QUERIES:
            shapes = (2, 4, queries, size), (2, 4, 16, size), (2, 4, 16, size)
            yield Case(operator, dtype, tensors_of(shapes, dtype), {})
        yield _with_hidden_blocks(operator, dtype)
    if operator == f"{N}interpolate":
        for shape, size, modes in RESIZED:
            image = tensors_of((shape,), dtype)
            for mode in modes:
                yield Case(operator, dtype, image, {"size": size, "mode": mode})
                if mode in ALIGNED:
                    options = {"size": size, "mode": mode, "align_corners": True}
                    yield Case(operator, dtype, image, options)
                for scale in SCALES if mode in ALIGNED else ():
                    yield Case(operator, dtype, image, {"scale_factor": scale, "mode": mode})
    if operator == f"{N}grid_sample":
        (image,) = tensors_of(((2, 3, 4, 4),), dtype)
        grid = replace(tensors_of(((2, 5, 3, 2),), dtype)[0], values=("integers", -1, 1))
        for padding in ("border", "zeros", "reflection"):
            options = {"mode": "nearest", "padding_mode": padding, "align_corners": True}
            yield Case(operator, dtype, (image, grid), options)
    if operator in WHOLE:
        yield Case(operator, dtype, tensors_of(((2, 3, 4, 5),), dtype))
    if operator in CALLS:
        shapes, others, options = CALLS[operator]
        yield Case(operator, dtype, (*tensors_of(shapes, dtype), *others), options)


def _with_hidden_blocks(operator: str, dtype: str) -> Case:
    """A padded batch: of 640 keys the first 600, more than a block of any kernel, are hidden."""
    keys, hidden, queries = 640, 600, 3
    shapes = (1, 2, queries, 64), (1, 2, keys, 64), (1, 2, keys, 64)
    values = ("leading", -1.0, 1.0, hidden * queries, "-inf")
    mask = TensorRecipe((keys, queries), dtype, values, 9000, view=(("transpose", 0, 1),))
    return Case(operator, dtype, tensors_of(shapes, dtype), {"attn_mask": mask})


def tensors_of(shapes: tuple[tuple[int, ...], ...], dtype: str) -> tuple[TensorRecipe, ...]:
    """Tensors of different numbers."""
    return tuple(
        TensorRecipe(shape, dtype, UNIFORM, 2000 + 1000 * n + math.prod(shape))
        for n, shape in enumerate(shapes)
    )
