"""S of large sums of products, computed in float32: a bound from above, in half the time or less of
another product in float64.

A sum of n nonnegative products in any order, with or without fused multiplications, is computed in
float32 with a relative error of at most γ = n·u/(1 − n·u), u = 2⁻²⁴ (Higham, *Accuracy and
Stability of Numerical Algorithms*, 2nd edition, section 3.1). So S ≤ computed/(1 − γ), which
exceeds S by at most 2γ/(1 − γ): 0.1% for the longest sums that are computed so.
"""

from __future__ import annotations

import contextlib
import os
import platform
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .error_magnitudes import ErrorMagnitudes

LARGE = 1 << 21  # multiplications; below it, exactness is worth more than the time
MOST_TERMS = 1 << 13
_MORE_TERMS = 4  # a bias, and the roundings of factors such as alpha
_SMALLEST = 2.0**-110  # × n
_SUBNORMAL = 2.0**-16  # × the smallest sum: what is lost where products are subnormal, 2⁻¹²⁶ each
_FAMILIES = ("matmul", "convolution") if platform.machine() in ("x86_64", "AMD64") else ("matmul",)
_PLAIN = ("none", "ieee")
_NARROW = ("float32", "float16", "bfloat16")


def is_large(reference: ErrorMagnitudes) -> bool:
    """Whether S is a sum of products that is worth a bound: neither small nor very long."""
    operator = reference.operator
    if operator.family not in _FAMILIES or operator.reference is not None:
        return False
    terms = reference.terms(0) + _MORE_TERMS
    elements = sum(o.tensor.numel() for o in reference.outcome.outputs if o.tensor is not None)
    return terms * elements >= LARGE and terms <= MOST_TERMS


def upper_bound(
    reference: ErrorMagnitudes, function: Any, args: Any, kwargs: dict[str, Any]
) -> torch.Tensor | None:
    """S of every element from above, in float64, where it :func:`is_large`. None where that is not
    sound: for numbers that float32 cannot hold, results beyond its range or near its smallest
    numbers, and where torch may compute float32 with fewer bits.

    ``args`` and ``kwargs`` are the arguments, of which numbers are absolute values already; tensors
    are in float64 and have their signs.
    """
    if reference.operator.family == "convolution" and _groups(args, kwargs) != 1:
        return None
    if not _computes_plainly():
        return None
    terms = reference.terms(0) + _MORE_TERMS
    fits = _fits_float32(reference)
    try:
        narrow = [_absolute(arg, fits) for arg in args]
        narrow_named = {name: _absolute(arg, fits) for name, arg in kwargs.items()}
    except _InexactError:
        return None
    with _without_transforms():
        result = function(*narrow, **narrow_named)
    if not isinstance(result, torch.Tensor) or result.dtype != torch.float32:
        return None
    low, high = map(float, torch.aminmax(result))
    if not (low > terms * _SMALLEST and high < float("inf")):  # false for NaN
        return None
    roundoff = terms * 2.0**-24
    lost = roundoff / (1.0 - roundoff) + _SUBNORMAL
    return result.to(torch.float64).mul_(1.0 / (1.0 - lost))


def _groups(args: Any, kwargs: dict[str, Any]) -> Any:
    """The groups of a convolution, transposed or not: oneDNN takes other elements of some grouped
    weights (docs/findings.md), so that its float32 result bounds nothing."""
    return kwargs.get("groups", args[_GROUPS] if len(args) > _GROUPS else 1)


_GROUPS = 6  # the position among the arguments


class _InexactError(Exception):
    """A number that float32 cannot hold."""


def _fits_float32(reference: ErrorMagnitudes) -> bool:
    """Whether the numbers of all tensors were drawn in a format whose numbers float32 has."""
    return all(tensor.dtype in _NARROW for tensor in reference.materials.case.tensors)


def _absolute(value: Any, fits: bool) -> Any:
    """Floating-point tensors as absolute values in float32, in nested lists and tuples. ``fits``:
    they hold numbers of float32 only. Raises _InexactError."""
    if isinstance(value, torch.Tensor):
        if value.dtype != torch.float64:
            if value.dtype.is_floating_point or value.is_complex():
                raise _InexactError
            return value
        narrow = value.to(torch.float32)
        if not (fits or torch.equal(narrow.to(torch.float64), value)):
            raise _InexactError
        return narrow.abs_()
    if isinstance(value, (tuple, list)):
        return type(value)(_absolute(item, fits) for item in value)
    return value


def _computes_plainly() -> bool:
    """Whether nobody allowed float32 products in fewer bits."""
    modes = (os.environ.get(name, "STRICT") for name in _MODE_VARIABLES)
    if any(mode.upper() != "STRICT" for mode in modes):
        return False
    if torch.get_float32_matmul_precision() != "highest":
        return False
    backends: Any = torch.backends
    places = (backends, backends.mkldnn, *(
        getattr(backends.mkldnn, name, None) for name in ("matmul", "conv")
    ))  # fmt: skip
    return all(getattr(place, "fp32_precision", "none") in _PLAIN for place in places)


_MODE_VARIABLES = ("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE")


def _without_transforms() -> contextlib.AbstractContextManager[Any]:
    """NNPACK may convolve by Fourier or Winograd transforms, which are no plain sums."""
    nnpack: Any = getattr(torch.backends, "nnpack", None)
    flags = getattr(nnpack, "flags", None)
    return contextlib.nullcontext() if flags is None else flags(enabled=False)
