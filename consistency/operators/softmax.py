"""Softmax and its kin. Exponents carry the rounding of x − max, so S = (|x − max| + 1)·ref, and for the logarithm a sum of both."""

from __future__ import annotations

from typing import Any

import torch

from ..recipe import DType
from ._shared import Args, Kwargs, Outputs, finite, magnitude
from .declare import FLOATS, Call, Domain, Drawing, Magnitude, Operator, accumulated, call

# exp overflows above 88.72 (float16: 11.09), is subnormal below -87.33 (-9.70) and zero below -103.97 (-17.33).
POINTS = (88.72, -87.33, -103.97, 11.09, -9.7, -17.33)
EXPONENTS = Domain(points=POINTS, specials=("-inf", "inf", "nan", "-0"), wide=(-10, 7), sums=True)


def along(d: Drawing) -> Call:
    """Along any dim, up to 4096 elements; the result sometimes in a wider dtype."""
    shape = (*d.shape(0, 1, most=4), d.size(1, 4095)) if d.flag() else d.shape(0, 4)
    wider = "float64" if d.dtype in ("float32", "float64") else "float32"
    dtype = {"dtype": DType(wider)} if d.choice(False, False, False, True) else {}
    return call(d.tensor(shape, EXPONENTS), d.dim(shape), **dtype)


def distance(x: torch.Tensor, dim: int) -> torch.Tensor:
    """|x − max|, 0 where it is not finite."""
    return finite((x - x.amax(dim, keepdim=True)).abs()) if x.numel() else x


@magnitude
def of_softmax(outputs: Outputs, input: torch.Tensor, dim: int, **kwargs: Any) -> torch.Tensor:
    return (distance(input, dim) + 1.0) * finite(outputs[0])


@magnitude
def of_softmin(outputs: Outputs, input: torch.Tensor, dim: int, **kwargs: Any) -> torch.Tensor:
    return (distance(-input, dim) + 1.0) * finite(outputs[0])


@magnitude
def of_log_softmax(outputs: Outputs, input: torch.Tensor, dim: int, **kwargs: Any) -> torch.Tensor:
    return distance(input, dim) + finite(outputs[0]).abs() + 1.0


def length(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    """n: elements along the dim."""
    return float(args[0].shape[args[1]]) if args[0].ndim else 1.0


def softmax(name: str, size: Magnitude) -> Operator:
    return Operator(name=name, family="softmax", sample=along, error=accumulated(size, length), dtypes=FLOATS)


OPERATORS = [
    softmax("softmax", of_softmax),
    softmax("log_softmax", of_log_softmax),
    softmax("nn.functional.softmin", of_softmin),
]
