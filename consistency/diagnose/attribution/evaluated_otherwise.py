"""Operators that a device's kernel evaluates by another formula than torch's: equal in exact
arithmetic, or equal but for NaN, crossed bounds and the direction of rounding.

Such a formula is simpler than a loss of precision that has the same errors, so these come first.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ...core.dtypes import TORCH, form_of, name_of
from .context import AttributionContext
from .fewer_bits import rounded
from .simulation import FaultHypothesis, Hypotheses, Predicted, unchanged_call

Formula = Callable[..., torch.Tensor]
# Operators and the factor of the result in a difference from 1.
_INTERMEDIATES = {
    "log1p": 0.0, "expm1": 1.0, "erfc": -1.0, "nn.functional.celu": 1.0, "nn.functional.elu": 1.0,
    "nn.functional.selu": 1.0 / 1.7580993408473766,
}  # fmt: skip
_FORMATS: dict[str, Any] = {"float32": np.float32, "float16": np.float16}
_MIN_SHOWN = 6  # inputs: a result is such a difference by chance in one of 2 to 2²³
_MUCH_SMALLER = 2.0**-6  # than 1: there the rounding of a product is far below the format's step
_PI_16 = 3.140625  # π in float16
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805
_DIFFERENTIATED = ("logsumexp", "nn.functional.normalize")  # whose gradients are the formula's
_CASTS = ("half", "to", "bfloat16", "float", "type", "type_as")
_CLAMPS = ("clamp", "clip", "clamp_", "clip_", "nn.functional.hardtanh")
_TRIANGLES = ("tril", "triu", "tril_", "triu_")


def _sinh(x: torch.Tensor) -> torch.Tensor:
    return (torch.exp(x) - torch.exp(-x)) / 2.0


def _tanh(x: torch.Tensor) -> torch.Tensor:
    return 1.0 - 2.0 / (torch.exp(2.0 * x) + 1.0)


def _asinh(x: torch.Tensor) -> torch.Tensor:
    return torch.log(x + torch.sqrt(x * x + 1.0))


def _power(x: torch.Tensor) -> torch.Tensor:
    return torch.exp2(2.0 * torch.log2(x.abs()))


def _sinc_16(x: torch.Tensor) -> torch.Tensor:
    """Of float16, with each step cut as hardware does that rounds toward zero."""
    angle = rounded(_PI_16 * x.to(torch.float64), 11, truncate=True)
    return torch.where(angle == 0.0, 1.0, torch.sin(angle) / angle)


def _asin(x: torch.Tensor) -> torch.Tensor:
    """Abramowitz & Stegun 4.4.45; at 0 it is π/2 − 1.5707288 = 6.8e-5."""
    a = x.abs()
    powers = 1.5707288 + a * (-0.2121144 + a * (0.0742610 + a * -0.0187293))
    return torch.sign(x) * (math.pi / 2.0 - torch.sqrt(1.0 - a) * powers)


def _threshold(x: torch.Tensor, threshold: float, value: float) -> torch.Tensor:
    return (x > threshold).to(x.dtype) * (x - value) + value


def _exponential_unit(scale: float, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    alpha = kwargs.get("alpha", args[0] if args else 1.0)
    return torch.where(x > 0.0, scale * x, scale * alpha * (torch.exp(x) - 1.0))


def _selu(x: torch.Tensor, *_: Any) -> torch.Tensor:
    return _exponential_unit(_SELU_SCALE, x, _SELU_ALPHA)


def _soft_margin(x: torch.Tensor, y: torch.Tensor, *_: Any, **kwargs: Any) -> torch.Tensor:
    terms = torch.log(1.0 + torch.exp(-x * y))
    reduction = kwargs.get("reduction", "mean")
    return terms if reduction == "none" else getattr(terms, reduction)()


def _normalized(x: torch.Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    """Without the absolute value in the norm."""
    powers = torch.pow(x, p).sum(dim, keepdim=True)
    return x / (torch.sign(powers) * powers.abs() ** (1.0 / p))


def _log_of_sums(x: torch.Tensor, dim: Any, keepdim: bool = False) -> torch.Tensor:
    """Whose shift is not left out where it is infinite: ∞ − ∞."""
    largest = torch.amax(x, dim, keepdim=True)
    total = torch.log(torch.exp(x - largest).sum(dim, keepdim=True)) + largest
    return total if keepdim else total.squeeze(dim)


def _hard_sigmoid(x: torch.Tensor) -> torch.Tensor:
    return (x * (1.0 / 6.0) + 0.5).clamp(0.0, 1.0)


def _remainder(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x - y * torch.floor(x / y)


# By operator: how its value is written, and the formula. Each step is rounded to the format.
FORMULAS: dict[str, tuple[tuple[str, Formula], ...]] = {
    "log1p": (("log(1 + x)", lambda x: torch.log(1.0 + x)),),
    "expm1": (("exp(x) − 1", lambda x: torch.exp(x) - 1.0),),
    "square": (("pow(x, 2) by logarithms", _power),),
    "erfc": (("1 − erf(x)", lambda x: 1.0 - torch.erf(x)),),
    "sinh": (("(exp(x) − exp(−x)) / 2", _sinh),),
    "tanh": (("1 − 2 / (exp(2x) + 1)", _tanh),),
    "asinh": (("log(x + √(x² + 1))", _asinh),),
    "acosh": (("log(x + √(x² − 1))", lambda x: torch.log(x + torch.sqrt(x * x - 1.0))),),
    "atanh": (("log((1 + x) / (1 − x)) / 2", lambda x: torch.log((1.0 + x) / (1.0 - x)) / 2.0),),
    "remainder": (("x − y · floor(x / y)", _remainder),),
    "sinc": (
        ("sin(πx) / (πx)", lambda x: torch.sin(math.pi * x) / (math.pi * x)),
        ("sin(πx) / (πx) in float16", _sinc_16),
    ),
    "nn.functional.softplus": (("log(1 + exp(x))", lambda x: torch.log(1.0 + torch.exp(x))),),
    "asin": (("π/2 − √(1 − |x|) · a polynomial, good to 7e-5", _asin),),
    "nn.functional.hardsigmoid": (("x · (1/6) + 1/2", _hard_sigmoid),),
    "nn.functional.hardswish": (("x · (x · (1/6) + 1/2)", lambda x: x * _hard_sigmoid(x)),),
    "nn.functional.threshold": (("(x > t) · (x − value) + value", _threshold),),
    "nn.functional.celu": (("exp(x) − 1", lambda x, *a, **k: _exponential_unit(1.0, x, *a, **k)),),
    "nn.functional.elu": (("exp(x) − 1", lambda x, *a, **k: _exponential_unit(1.0, x, *a, **k)),),
    "nn.functional.selu": (("exp(x) − 1", _selu),),
    "nn.functional.soft_margin_loss": (("log(1 + exp(−x · y))", _soft_margin),),
    "nn.functional.normalize": (("x / (Σ xᵖ)^(1/p), without |x|", _normalized),),
    "logsumexp": (("log(Σ exp(x − max)) + max, where ∞ − ∞ is NaN", _log_of_sums),),
    "nn.functional.tanhshrink": (("x − tanh(x), by exp", lambda x: x - _tanh(x)),),
}


def hypotheses(context: AttributionContext) -> Hypotheses:
    if context.backward:
        name, _ = plain_name(context.operator.name)
        if name in _DIFFERENTIATED:
            for words, formula in FORMULAS[name]:
                yield FaultHypothesis(
                    "evaluated-otherwise",
                    f"{name.removeprefix('nn.functional.')} evaluated as {words}",
                    functools.partial(context.with_call, unchanged_call, formula),
                )
        return
    name, skipped = plain_name(context.operator.name)
    for words, formula in FORMULAS.get(name, ()):
        for steps in dict.fromkeys((context.dtype, "float32")):
            if steps in ("float32", "float16"):
                yield FaultHypothesis(
                    "evaluated-otherwise",
                    f"{name.removeprefix('nn.functional.')} evaluated as {words}",
                    functools.partial(_in_steps, context, formula, steps, skipped),
                )
        if name in _INTERMEDIATES:
            yield FaultHypothesis(
                "evaluated-otherwise",
                f"{name.removeprefix('nn.functional.')} evaluated as {words}",
                functools.partial(_by_its_traces, context, name, skipped),
            )
    if name in _CLAMPS:
        yield FaultHypothesis(
            "crossed-bounds",
            "the lower bound wins where the bounds cross",
            functools.partial(_lower_wins, context, skipped),
        )
    if name in _CASTS:
        yield FaultHypothesis(
            "rounded-toward-zero",
            "the cast rounds toward zero",
            functools.partial(_toward_zero, context),
        )
    if name in _TRIANGLES and context.special:
        yield FaultHypothesis(
            "masked-by-product",
            "a mask is multiplied, and 0 · NaN is NaN",
            functools.partial(
                context.with_call,
                unchanged_call,
                functools.partial(_masked, name.rstrip("_"), skipped),
            ),
        )


def plain_name(name: str) -> tuple[str, int]:
    """The operator of a form such as ``log1p.out`` or ``log1p.method``, and the number of leading
    arguments that are not the operator's."""
    base, _, form = name.rpartition(".")
    if form in ("out", "method"):
        return base, int(form == "out")
    kept = name in _TRIANGLES or name in _CLAMPS or name.startswith("__")
    return (name if kept else name.rstrip("_")), 0


def _in_steps(context: AttributionContext, formula: Formula, steps: str, skipped: int) -> Predicted:
    """The formula of the operator's arguments with every step rounded to ``steps``."""
    narrow = TORCH[steps]

    def call(*args: Any, **kwargs: Any) -> Any:
        given = [a.to(narrow) if isinstance(a, torch.Tensor) else a for a in args[skipped:]]
        return formula(*given).to(torch.float64)

    return context.with_call(unchanged_call, call)


def _by_its_traces(context: AttributionContext, name: str, skipped: int) -> Predicted:
    """The result itself where it shows how it was computed, whatever the device's own log, exp and
    erf are worth: of log(1 + x), inputs with one 1 + x give one result; of exp(x) − 1 and 1 −
    erf(x), small results are differences from 1 of numbers of the format, as right ones are not.
    """
    steps = _FORMATS.get(context.dtype)
    x = context.reference.arguments.args[skipped].detach().to(torch.float64).reshape(-1).numpy()
    if steps is None or x.size != context.actual.size:
        return []
    got, wanted = context.actual, context.expected
    near = context.failing & (np.abs(x) < 0.5 if name == "log1p" else np.abs(wanted) < 0.25)
    shown: Any = np.zeros(near.shape, np.bool_)
    if name == "log1p":
        sums = (1.0 + x).astype(steps)
        for value in np.unique(sums[near]):
            alike = near & (sums == value)
            if np.unique(x[alike]).size > 1:
                shown |= alike & (np.unique(got[alike]).size == 1)
    else:
        factor = _INTERMEDIATES[name]
        if abs(factor) != 1.0:  # the result is rounded once more: only much smaller ones tell
            near &= np.abs(wanted) < _MUCH_SMALLER
        shown = near & _is_difference(factor * got, factor, steps)
        chance = _is_difference(factor * wanted[near], factor, steps)
        if np.count_nonzero(chance) > np.count_nonzero(near) / 2:
            return []
    if np.unique(x[shown]).size < _MIN_SHOWN:
        return []
    return context.outputs(np.where(shown, got, wanted))


def _is_difference(values: Any, factor: float, steps: Any) -> Any:
    """Where 1 + values are numbers of a format; but for the rounding of values if they were
    multiplied by a factor."""
    with np.errstate(all="ignore"):
        rounding = 0.0 if abs(factor) == 1.0 else np.finfo(steps).eps * np.abs(values)
        return np.abs((1.0 + values).astype(steps).astype(np.float64) - (1.0 + values)) <= rounding


def _lower_wins(context: AttributionContext, skipped: int) -> Predicted:
    """min(max(x, low), high), as torch computes it, in the other order."""
    names = ("min_val", "max_val") if "hardtanh" in context.operator.name else ("min", "max")

    def call(*args: Any, **kwargs: Any) -> Any:
        x, *bounds = args[skipped:]
        given = dict(zip(names, bounds, strict=False)) | kwargs
        low, high = (given.get(name) for name in names)
        if low is None or high is None:
            raise ValueError("only one bound, which crosses none")
        return torch.maximum(torch.minimum(x, torch.as_tensor(high, dtype=x.dtype)),
                             torch.as_tensor(low, dtype=x.dtype))  # fmt: skip

    return context.with_call(unchanged_call, call)


def _toward_zero(context: AttributionContext) -> Predicted:
    """The input cut to the result's digits; beyond its range the largest number."""
    if context.raw is None or not context.raw.is_floating_point():
        return []
    form = form_of(name_of(context.raw.dtype))
    if form is None:
        return []
    largest = torch.finfo(context.raw.dtype).max
    given = context.reference.arguments.args[0].detach().to(torch.float64)
    normal = rounded(given, form.precision, truncate=True).clamp(-largest, largest)
    step = 2.0 * form.smallest_normal * form.unit_roundoff
    result = torch.where(given.abs() < form.smallest_normal, (given / step).trunc() * step, normal)
    return context.outputs(torch.where(torch.isfinite(given), result, given))


def _masked(name: str, skipped: int, *args: Any, **kwargs: Any) -> Any:
    x, *rest = args[skipped:]
    mask = getattr(torch, name)(torch.ones_like(x), *rest, **kwargs)
    return x * mask


def incomplete_mask(context: AttributionContext) -> Hypotheses:
    """tril whose mask ends before the corner: from some diagonal on, numbers (of the gradient, the
    cotangent's) are kept."""
    name, skipped = plain_name(context.operator.name)
    if name.rstrip("_") != "tril" or len(context.shape) < 2:
        return
    rows, columns = context.shape[-2:]
    diagonals = (torch.arange(columns) - torch.arange(rows).unsqueeze(1)).expand(context.shape)
    wrong = torch.from_numpy(context.failing).reshape(context.shape)
    first = int(diagonals[wrong].min()) if bool(wrong.any()) else columns
    if first <= 0 or columns - first < 1:
        return

    def call(*args: Any, **kwargs: Any) -> Any:
        x, *rest = args[skipped:]
        kept = torch.arange(columns) - torch.arange(rows).unsqueeze(1) >= first
        return torch.where(kept, x, torch.tril(x, *rest, **kwargs))

    yield FaultHypothesis(
        "mask-incomplete",
        f"the mask ends before the corner: diagonals from {first} on are kept",
        functools.partial(context.with_call, unchanged_call, call),
    )
