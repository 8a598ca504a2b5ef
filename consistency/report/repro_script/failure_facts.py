"""The facts about a result that a script needs: its kind, its element, the correct value, and the
allowed error."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from ...core import dtypes
from ...core.detail import (
    BrokenContract,
    ModifiedInput,
    Nondeterministic,
    ReferenceRaised,
    StateChanged,
    TimedOut,
)
from ...core.model import Measured, Result, Worst
from ...operators.declare import Operator
from ...operators.nonunique_results import zeros_aside
from ...reference import Reference
from .script_context import UnscriptableError

_ELSEWHERE = 32.0  # assumed largest ratio between the budgets of two elements
_FEWEST = 1.2  # smallest ratio to the usual RMS error that a script can detect


def kind_of(result: Result, operator: Operator | None) -> str:
    """The kind of a failure, which selects a script's last lines.

    ``value``, ``spread``, ``special``, ``structure``, ``modified``, ``contract``, ``state``,
    ``raises``,
    ``lenient`` (should raise), ``crash``, ``timeout``, ``repeats``, ``threads``, ``batch``,
    ``scaling`` or ``flags`` (of random operators).
    """
    verdict, comparison, detail = result.verdict.value, result.comparison, result.detail
    if verdict in ("crash", "timeout"):
        return verdict
    if verdict == "unsupported":
        return "raises"
    if verdict == "nondeterministic":
        kind = detail.kind if isinstance(detail, Nondeterministic) else ""
        return kind if kind in ("threads", "batch") else "repeats"
    if verdict == "precision-scaling" and result.worst is None:
        return "scaling"
    status = comparison.status if comparison is not None else ""
    if verdict == "error" or status in ("raised", "no-reference"):
        lenient = status == "no-reference" or isinstance(detail, ReferenceRaised)
        return "lenient" if lenient else "raises"
    if verdict == "structure" or (comparison is not None and comparison.structure):
        if isinstance(detail, StateChanged):
            return "state"
        if broken_contract(result) is not None:
            return "contract"
        return "modified" if modified_input(result) is not None else "structure"
    if operator is not None and "random" in operator.traits:
        return "flags"
    measured = measured_of(result)
    # What a policy admits, such as another sign of zero, is nothing to assert.
    odd = measured is not None and measured.special and not result.verdict.passes
    if verdict == "special-values" or odd:
        return "special"
    if operator is not None and operator.error.of(result.dtype).kind == "structure":
        return "structure"
    return (
        "spread"
        if result.worst is not None and result.verdict.fails and rho_of(result) <= 1.0
        else "value"
    )


def rho_of(result: Result) -> float:
    return float(result.metrics.get("rho_max", 0.0))


def modified_input(result: Result) -> int | None:
    """The position of the modified input, or None."""
    detail = result.comparison.detail if result.comparison is not None else result.detail
    return detail.position if isinstance(detail, ModifiedInput) else None


def broken_contract(result: Result) -> BrokenContract | None:
    """What is not as on the CPU beside the numbers, if that is the failure."""
    detail = result.detail
    return detail if isinstance(detail, BrokenContract) else None


def measured_of(result: Result) -> Measured | None:
    """The output that the verdict is about, or None."""
    outputs = result.comparison.outputs if result.comparison is not None else ()
    return next((output for output in outputs if output.name == result.output), None)


def seconds_of(result: Result) -> float:
    """The timeout of the call, in seconds."""
    detail = result.detail
    return min(max(detail.seconds, 1.0), 600.0) if isinstance(detail, TimedOut) else 30.0


class EmptyError(UnscriptableError):
    """The result has no element."""


@dataclass(frozen=True)
class Element:
    """The tested element: the number of its output, and its index (for complex numbers, the last
    index is the part)."""

    position: int
    index: tuple[int, ...]
    paired: bool
    dtype: str
    recorded: Any
    admitted: float
    actual: Any = None

    @property
    def exact(self) -> bool:
        return not isinstance(self.recorded, float) or self.admitted == 0.0


def observation_hook(operator: Operator, direction: str) -> Any:
    """The hook that extracts the compared part of the outputs; None if it changes nothing
    relevant."""
    hook = operator.observe_gradients if direction == "backward" else operator.observe
    return None if hook is zeros_aside else hook


def element_of(result: Result, reference: Reference) -> Element:
    """The worst element or, if nothing is wrong, the middle one. Raises UnscriptableError if there
    is none."""
    outputs = reference.outputs
    measured = result.comparison.outputs if result.comparison is not None else ()
    names = [output.name for output in measured or outputs]
    position = names.index(result.output) if result.output in names else 0
    if position >= len(outputs):
        raise UnscriptableError("float64 on the CPU gives no such output here")
    right = outputs[position].tensor
    dtype = measured[position].dtype if measured else _own(outputs[position].dtype, result.dtype)
    whole = right is not None and not (right.is_complex() or right.is_floating_point())
    if right is not None and whole and dtype in dtypes.INTEGER_RANGE:
        right = right.to(dtypes.TORCH[dtype])  # the comparison wraps the wider reference, too
    worst = result.worst or _ordinary(right, outputs[position].value)
    paired = right is not None and right.is_complex()
    if right is not None and whole:
        kept = right[worst.index].item() if _fits(worst.index, right) else worst.expected
        if float(kept) != worst.expected:  # float64 shares the fault: it is no reference here
            kept = worst.expected
        return Element(
            position,
            worst.index,
            False,
            dtype,
            kept if not isinstance(kept, float) else int(kept),
            0.0,
            worst.actual,
        )
    if right is None:
        return Element(position, (), False, dtype, outputs[position].value, 0.0, worst.actual)
    rho, error = rho_of(result), abs(worst.actual - worst.expected)
    if (
        result.worst is None
    ):  # passing results store no element, so its budget is estimated from another's
        error = _ELSEWHERE * result.metrics.get("abs_max", 0.0)
    unknown = _half_an_ulp(worst.expected, dtype) * (
        1.0 if result.verdict.fails or result.verdict.passes else _ELSEWHERE**2
    )
    free = _gradient_floor(result, dtype) if result.worst is not None else 0.0
    admitted = max(error - free, 0.0) / rho + free if rho > 0.0 and error > free else unknown
    if (
        not math.isfinite(admitted)
        and math.isfinite(worst.expected)
        and math.isfinite(worst.actual)
    ):
        raise UnscriptableError("what its numbers say of its budget makes no sense")
    return Element(
        position, worst.index, paired, dtype, float(worst.expected), admitted, worst.actual
    )


def _gradient_floor(result: Result, dtype: str) -> float:
    """The error of gradients that is ignored, since their intermediates may be subnormal."""
    form = dtypes.form_of(dtype)
    return form.smallest_normal if result.direction == "backward" and form is not None else 0.0


def _own(wide: str, dtype: str) -> str:
    """The dtype in the tested run of an output whose float64 run had dtype ``wide``."""
    return (
        (dtypes.PARTS.get(dtype, dtype) if dtypes.floats(dtype) else "float32")
        if dtypes.floats(wide)
        else wide
    )


def _ordinary(right: torch.Tensor | None, value: Any) -> Worst:
    if right is None:
        return Worst((), value, value)
    tensor = torch.view_as_real(right.resolve_conj()) if right.is_complex() else right
    if not tensor.numel():
        raise EmptyError("its result is empty: there is no number to show")
    index = tuple(size // 2 for size in tensor.shape)
    number = float(tensor[index].item())
    return Worst(index, number, number)


def rounded_up(admitted: float, error: float) -> str:
    """``admitted`` with few digits, rounded up, but not above an ``error`` that exceeds it."""
    for digits in (3, 6, 12):
        text = f"{admitted:.{digits}g}"
        if float(text) < admitted:
            text = f"{admitted * (1.0 + 5.0 * 10.0**-digits):.{digits}g}"
        if admitted <= float(text) and (error <= admitted or float(text) < error):
            return text
    return repr(admitted)


def _fits(index: tuple[int, ...], tensor: torch.Tensor) -> bool:
    return len(index) == tensor.ndim and all(
        0 <= i < size for i, size in zip(index, tensor.shape, strict=True)
    )


def _half_an_ulp(value: float, dtype: str) -> float:
    form = dtypes.form_of(dtype) or dtypes.FORMATS["float32"]
    size = max(abs(value), form.smallest_normal) if value == value else form.smallest_normal
    return float(min(size * 2.0 ** (2 - form.precision), 1e300))


def healthy_rms(result: Result) -> tuple[float, float]:
    """The usual RMS error, and the ratio of the measured one to it. Raises UnscriptableError if
    they are similar."""
    measured = measured_of(result)
    ratio = result.metrics.get("rmse_ratio", 1.0)
    if measured is None or not measured.rms:
        raise UnscriptableError(
            "only the distribution of its errors is unusual, of which no numbers were kept"
        )
    times = max(ratio, min(measured.sigma_rms, 1e6))
    if times < _FEWEST:
        raise UnscriptableError(
            "only the distribution of its errors is unusual, and no single number tells that"
        )
    return measured.rms / times, times
