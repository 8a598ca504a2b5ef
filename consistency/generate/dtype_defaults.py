"""Defaults that depend on the dtype: a float64 reference must use those of the tested dtype.

``rms_norm(x, shape)`` adds the dtype's machine epsilon, ``nan_to_num(x)`` replaces infinities by
the dtype's largest number, and ``linalg.pinv(x)`` cuts off singular values below a multiple of its
epsilon (PyTorch's documentation of each).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ..core import dtypes

Args = list[Any]
Kwargs = dict[str, Any]


def give(operator: str, dtype: str, args: Args, kwargs: Kwargs) -> None:
    """Write into ``args`` and ``kwargs`` of ``operator``, named as in torch or as an aten overload,
    in the floating ``dtype``, what was left to the dtype."""
    rule = _RULES.get(_plain(operator))
    if rule is not None:
        rule(dtypes.TORCH[dtype], args, kwargs)


def _plain(operator: str) -> str:
    """``nan_to_num`` of ``aten.nan_to_num_.default`` and ``nan_to_num.method``,
    ``nn.functional.rms_norm`` as it is."""
    parts = operator.removesuffix(".method").split(".")
    return (parts[1] if parts[0] == "aten" and len(parts) > 1 else ".".join(parts)).removesuffix(
        "_"
    )


def _fill(args: Args, kwargs: Kwargs, position: int, name: str, value: float) -> None:
    if position < len(args):
        args[position] = value if args[position] is None else args[position]
    elif kwargs.get(name) is None:
        kwargs[name] = value


def _limits_of_out(dtype: torch.dtype, args: Args, kwargs: Kwargs) -> None:
    """The result's tensor stands before the arguments."""
    rest = args[1:]
    _limits(dtype, rest, kwargs)
    args[1:] = rest


def _epsilon(dtype: torch.dtype, args: Args, kwargs: Kwargs) -> None:
    _fill(args, kwargs, 3, "eps", _added(dtype))


@functools.cache
def _added(dtype: torch.dtype) -> float:
    """The epsilon that this torch adds, found by calling it: for the half formats newer versions
    take float32's."""
    x = torch.full((1, 2), 2.0**-12, dtype=dtype)
    scaled = float(torch.nn.functional.rms_norm(x, [2])[0, 0].double())
    return min(
        (torch.finfo(dtype).eps, torch.finfo(torch.float32).eps),
        key=lambda eps: abs((2.0**-12 / scaled) ** 2 - 2.0**-24 - eps),
    )


def _limits(dtype: torch.dtype, args: Args, kwargs: Kwargs) -> None:
    _fill(args, kwargs, 2, "posinf", torch.finfo(dtype).max)
    _fill(args, kwargs, 3, "neginf", torch.finfo(dtype).min)


def _cut(dtype: torch.dtype, args: Args, kwargs: Kwargs) -> None:
    named = (kwargs.get(name) for name in ("atol", "rtol", "tol", "rcond"))
    # A second argument by position is a tolerance, True as well: torch takes it for 1.
    if all(tolerance is None for tolerance in (*named, *args[1:2])):
        matrix: Any = args[0] if args else kwargs.get("A", kwargs.get("input"))
        kwargs["rtol"] = max(matrix.shape[-2:]) * torch.finfo(dtype).eps


_RULES: dict[str, Callable[[torch.dtype, Args, Kwargs], None]] = {
    "nn.functional.rms_norm": _epsilon, "rms_norm": _epsilon, "_fused_rms_norm": _epsilon,
    "nan_to_num": _limits, "nan_to_num.out": _limits_of_out,
    "linalg.pinv": _cut, "linalg.matrix_rank": _cut,
}  # fmt: skip
