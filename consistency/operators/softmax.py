"""Softmax and its kin. Exponents carry the rounding of x − max, so S = (|x − max| + 1)·ref, and for
the logarithm a sum of both."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..core.recipe import DType
from .declare import EVERY, FLOATS, Call, Domain, Drawing, Magnitude, Operator, accumulated, call
from .hooks import Tensors, hook
from .magnitudes import FEW, finite

Doubles = npt.NDArray[np.float64]

# exp overflows above 88.72 (float16: 11.09), is subnormal below -87.33 (-9.70) and zero below
# -103.97 (-17.33).
LARGE, SMALL = (88.72, 11.09), (0.0, -9.7, -17.33, -87.33, -103.97)
OVERFLOWING = Domain(points=LARGE, specials=("-inf", "inf", "nan", "-0"), wide=(-10, 5), sums=True)
MIXED = Domain(-1024.0, 1024.0, specials=("-inf", "max", "-max", "nan"), wide=(-10, 9))
UNDERFLOWING = Domain(points=SMALL, specials=("-inf", "-0"), wide=(-10, 7), sums=True)


def along(d: Drawing) -> Call:
    """Along any dim, up to 4096 elements, seldom a single one: its share is 1.

    Numbers are mostly large or small, not both: of both in a row the largest alone would have a
    share. Seldom one number expanded: shares are equal then. One row in thirty-two is as long as a
    vocabulary.
    """
    if d.integer(0, 31) == 31:
        return call(
            d.tensor((d.choice(1, 2), d.choice(32768, 50257)), UNDERFLOWING), d.choice(-1, 1)
        )
    shape = [*d.shape(0, 1, most=4), d.size(1, 4095)] if d.flag() else [*d.shape(0, 4)]
    dim = d.dim(shape)
    if shape and shape[dim] == 1 and d.integer(0, 7):
        shape[dim] = d.integer(2, 3)
    x = d.tensor(
        shape,
        d.choice(*[OVERFLOWING, UNDERFLOWING] * 7, MIXED),
        overlap=d.choice(False, False, False, True),
    )
    return call(x, dim)


def with_dtype(d: Drawing) -> Call:
    """The same with the result in a wider dtype."""
    plain = along(d)
    return call(
        *plain.args, dtype=DType("float64" if d.dtype in ("float32", "float64") else "float32")
    )


def precision(x: torch.Tensor, dim: int) -> torch.Tensor:
    """|x − max| + 1, the relative error of exp(x − max) in units of u; 1 where it is not finite.

    The 1 grows with the number z of zeros to √(1 + z²/n): blanks of the bitstream, negligible in a
    plain sum, are equal terms here, whose rounding errors are biased. G is √n, so z = n gives the n
    roundings of a sequential sum.
    """
    if not x.numel():
        return x
    if x.numel() <= FEW and x.ndim and x.dtype == torch.float64:
        return torch.from_numpy(_precision_of_few(x.numpy(), dim))
    size = x.amax(dim, keepdim=True) - x
    if not float(size.amax()) < math.inf:
        size = finite(size)
    if not bool((x == 0.0).any()):
        return size.add_(1.0)
    of_row = (x == 0.0).sum(dim, keepdim=True)
    return size.add_((1.0 + of_row**2 / (x.shape[dim] if x.ndim else 1)).sqrt())


def _precision_of_few(x: Doubles, dim: int) -> Doubles:
    """The same of few numbers, where calls cost more than passes over memory: NumPy's cost less."""
    size = np.maximum.reduce(x, axis=dim, keepdims=True) - x
    if not size.item(size.argmax()) < math.inf:
        size[~np.isfinite(size)] = 0.0
    if np.count_nonzero(x) == x.size:
        size += 1.0
        return size
    of_row = np.add.reduce(x == 0.0, axis=dim, dtype=np.float64, keepdims=True)
    size += np.sqrt(1.0 + of_row**2 / x.shape[dim])
    return size


def numbers(x: torch.Tensor) -> torch.Tensor:
    """Whole numbers as fractions, as which they are computed."""
    return x if x.is_floating_point() else x.double()


def of_share(sign: float) -> Magnitude:
    @hook
    def size(outputs: Tensors, input: torch.Tensor, dim: int, **kwargs: Any) -> torch.Tensor:
        x = numbers(input) if sign > 0.0 else -numbers(input)
        return precision(x, dim).mul(outputs[0])

    return size


def of_share_slope(sign: float) -> Magnitude:
    """y·(g − Σ g·y) with cotangents g of at most 1, every y as precise as its exponential and the
    sum of all."""

    @hook
    def size(outputs: Tensors, input: torch.Tensor, dim: int, **kwargs: Any) -> torch.Tensor:
        x = sign * numbers(input)
        y, error = finite(torch.softmax(x, dim)), precision(x, dim)
        return 2.0 * y * (error + (y * error).sum(dim, keepdim=True))

    return size


@hook
def of_logarithm(outputs: Tensors, input: torch.Tensor, dim: int, **kwargs: Any) -> torch.Tensor:
    return precision(numbers(input), dim) + finite(outputs[0]).abs()


@hook
def of_logarithm_slope(
    outputs: Tensors, input: torch.Tensor, dim: int, **kwargs: Any
) -> torch.Tensor:
    """g − y·Σ g."""
    x = numbers(input)
    y, error = finite(torch.softmax(x, dim)), precision(x, dim)
    return 1.0 + y * (error + (y * error).sum(dim, keepdim=True)) * (
        input.shape[dim] if input.ndim else 1
    )


@hook
def length(outputs: Tensors, x: Any, dim: Any, *_: Any, **__: Any) -> float:
    """n: elements along the dim."""
    return float(x.shape[dim]) if x.ndim else 1.0


def softmax(name: str, forward: Magnitude, backward: Magnitude, **more: Any) -> Operator:
    error = accumulated(forward, length, backward=backward, at_least_output=True)
    return Operator(
        name=name,
        family="softmax",
        sample=more.pop("sample", along),
        error=error,
        dtypes=more.pop("dtypes", FLOATS),
        **more,
    )


SUMMED_BACK = frozenset({"sums-cotangents"})  # g − y·Σ g
OPERATORS = [
    softmax("softmax", of_share(1.0), of_share_slope(1.0), out=True, method=True),
    softmax(
        "log_softmax", of_logarithm, of_logarithm_slope, out=True, method=True, traits=SUMMED_BACK
    ),
    softmax(
        "softmax.with_dtype",
        of_share(1.0),
        of_share_slope(1.0),
        sample=with_dtype,
        dtypes=EVERY,
        function=torch.softmax,
    ),
    softmax(
        "log_softmax.with_dtype",
        of_logarithm,
        of_logarithm_slope,
        sample=with_dtype,
        dtypes=EVERY,
        function=torch.log_softmax,
        traits=SUMMED_BACK,
    ),
    softmax("nn.functional.softmin", of_share(-1.0), of_share_slope(-1.0)),
]
