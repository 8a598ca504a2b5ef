"""float16 on hardware that rounds toward zero: a result of two or three steps, each of them cut.

Each step then errs by up to one ulp and all in one direction, so that a few of them exceed a budget
made of roundings to nearest.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .context import AttributionContext
from .fewer_bits import rounded
from .simulation import FaultHypothesis, Hypotheses, Predicted, unchanged_call

Formula = Callable[..., Any]
_BITS, _LEAST_STEP, _SMALLEST_NORMAL, _LARGEST = 11, 2.0**-24, 2.0**-14, 65504.0
_LOG2_E, _LOG10_E = 1.4423828125, 0.434326171875  # in float16
_ROOT_HALF = 0.70703125


def cut_to_float16(values: torch.Tensor) -> torch.Tensor:
    """float64 numbers rounded toward zero to float16's, subnormal ones included; beyond its range
    the largest number."""
    normal = rounded(values, _BITS, truncate=True)
    subnormal = (values / _LEAST_STEP).trunc() * _LEAST_STEP
    result = torch.where(values.abs() < _SMALLEST_NORMAL, subnormal, normal)
    return torch.where(torch.isfinite(values), result.clamp(-_LARGEST, _LARGEST), values)


class _CutSteps(TorchFunctionMode):
    """Cuts every float64 result of a function to float16."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.dtype == torch.float64:
            return cut_to_float16(result)
        return result


def _moments(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """A variance in two passes; the arguments are those of ``torch.var``."""
    given = dict(zip(("dim", "unbiased", "keepdim"), args, strict=False)) | kwargs
    if isinstance(given.get("dim"), bool):
        given["unbiased"] = given.pop("dim")
    dims = given.get("dim")
    dims = list(range(x.ndim)) if dims is None else [dims] if isinstance(dims, int) else list(dims)
    taken = given.get("correction")
    taken = int(given.get("unbiased", True)) if taken is None else taken
    count = math.prod(x.shape[dim] for dim in dims)
    keepdim = given.get("keepdim", False)
    squares = (x - x.mean(dims, keepdim=True)).square()
    if taken == 0:
        return torch.mean(squares, dims, keepdim=keepdim)
    return torch.div(squares.sum(dims, keepdim=keepdim), count - taken)


def _deviation(*args: Any, **kwargs: Any) -> torch.Tensor:
    return _moments(*args, **kwargs).sqrt()


def _and_mean(moment: Formula) -> Formula:
    """The two results of ``torch.var_mean`` and ``torch.std_mean``."""

    def both(x: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        given = dict(zip(("dim", "unbiased", "keepdim"), args, strict=False)) | kwargs
        dim = given.get("dim")
        dims = list(range(x.ndim)) if dim is None or isinstance(dim, bool) else dim
        return moment(x, *args, **kwargs), x.mean(dims, keepdim=given.get("keepdim", False))

    return both


def _norm(x: torch.Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False) -> torch.Tensor:
    dims = list(range(x.ndim)) if dim is None else dim
    powers = torch.pow(x.abs(), p).sum(dims, keepdim=keepdim)
    return torch.pow(powers, float(torch.tensor(1.0 / p, dtype=torch.float16)))


def _truncating_division(x: torch.Tensor, y: Any, rounding_mode: str | None = None) -> torch.Tensor:
    if rounding_mode != "trunc":
        raise ValueError("only of the division that truncates")
    return torch.div(x - torch.fmod(x, y), y)


# By operator: how its value is written, and the steps.
STEPS: dict[str, tuple[str, Formula]] = {
    "log2": ("ln(x) · log2(e)", lambda x: torch.log(x) * _LOG2_E),
    "log10": ("ln(x) · log10(e)", lambda x: torch.log(x) * _LOG10_E),
    "__rdiv__": ("y · (1 / x)", lambda x, y: torch.reciprocal(x) * y),
    "add": ("x + α · y", lambda x, y, *, alpha=1: x + alpha * y),
    "sub": ("x − α · y", lambda x, y, *, alpha=1: x - alpha * y),
    "addcmul": ("x + value · (y · z)", lambda x, y, z, *, value=1: x + value * (y * z)),
    "addcdiv": ("x + value · (y / z)", lambda x, y, z, *, value=1: x + value * (y / z)),
    "div": ("(x − fmod(x, y)) / y", _truncating_division),
    "nn.functional.silu": ("x · sigmoid(x)", lambda x: x * torch.sigmoid(x)),
    "nn.functional.softsign": ("x / (1 + |x|)", lambda x: x / (1.0 + x.abs())),
    "nn.functional.threshold": (
        "(x > t) · (x − value) + value",
        lambda x, threshold, value: (x > threshold) * (x - value) + value,
    ),
    "special.ndtr": (
        "(1 + erf(x / √2)) / 2",
        lambda x: 0.5 * (1.0 + torch.erf(x * _ROOT_HALF)),
    ),
    "sinc": (
        "sin(πx) / (πx)",
        lambda x: torch.where(x == 0.0, 1.0, torch.sin(x * 3.140625) / (x * 3.140625)),
    ),
    "var": ("mean of squared differences", _moments),
    "std": ("root of a mean of squared differences", _deviation),
    "var_mean": ("mean of squared differences", _and_mean(_moments)),
    "std_mean": ("root of a mean of squared differences", _and_mean(_deviation)),
    "norm": ("(Σ |x|ᵖ)^(1/p)", _norm),
    "linalg.vector_norm": ("(Σ |x|ᵖ)^(1/p)", _norm),
}


def hypotheses(context: AttributionContext, name: str, skipped: int) -> Hypotheses:
    """Of a float16 result; ``name`` is the operator without its form, ``skipped`` the number of
    leading arguments that are not its own."""
    if context.dtype != "float16" or context.backward or context.special:
        return
    short = name.removeprefix("nn.functional.")
    if name in STEPS:
        words, formula = STEPS[name]
        yield FaultHypothesis(
            "rounded-toward-zero",
            f"{short} as {words}, each step rounded toward zero to float16",
            functools.partial(_in_steps, context, formula, skipped),
        )
    yield FaultHypothesis(
        "rounded-toward-zero",
        "the result is rounded toward zero to float16",
        functools.partial(_cut, context),
    )


def _in_steps(context: AttributionContext, formula: Formula, skipped: int) -> Predicted:
    def call(*args: Any, **kwargs: Any) -> Any:
        with _CutSteps():
            return formula(*args[skipped:], **kwargs)

    return context.with_call(unchanged_call, call)


def _cut(context: AttributionContext) -> Predicted:
    """Only of a result in float32, as of a mean with ``dtype``: in float16 one step is budgeted."""
    if context.raw is None or context.raw.dtype != torch.float32:
        return []
    return context.outputs(cut_to_float16(torch.from_numpy(context.expected)).numpy())
