"""Comparison of an outcome with its reference: structure, special values, and the measurements for
the judge.

No tolerance is used here. The measurements (:class:`~consistency.core.model.Measured`) give the
exact max ρ for any c and λ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ..core.bits import integers
from ..core.detail import MAX_TEXT, ModifiedInput, StateChanged, TimedOut
from ..core.dtypes import PARTS
from ..core.model import Comparison, ElementGroup, Measured, Outcome, Output, Worst
from ..core.text import abridged, shown
from ..core.verdict import OutcomeStatus
from ..errors import UsageError
from ..reference import Reference
from ..reference.integer_casts import judge_casts
from .contract import breach
from .measurement import Floating
from .working_format import working_format


def compare(
    outcome: Outcome,
    reference: Reference,
    baseline: Outcome | None = None,
    known: Comparison | None = None,
) -> Comparison:
    """Measure ``outcome`` against ``reference``; ``baseline`` (the CPU in the same dtype) gives the
    expected dtypes. ``known`` is the baseline's own comparison: the same bits are measured once.

    NumPy emits floating-point warnings: call it under :func:`consistency.reference.quiet`.
    """
    if outcome.unsteady:
        return replace(
            compare(replace(outcome, unsteady=""), reference, baseline, known),
            unsteady=outcome.unsteady,
        )
    if outcome.state_changes:
        # What it computed is not compared: no program gets these numbers from a single call.
        comparison = changed_state(outcome.state_changes)
        how = f"{outcome.exception or outcome.status}: {outcome.message}" * (not outcome.ok)
        text = f"{comparison.structure}; the call itself: {how}" if how else comparison.structure
        return replace(comparison, structure=text)
    if outcome.status == OutcomeStatus.FALLBACK and outcome.outputs and reference.outcome.ok:
        # A fallback is not tested, but its result may be wrong or empty.
        comparison = compare(replace(outcome, status=OutcomeStatus.OK), reference, baseline, known)
        return replace(comparison, status=OutcomeStatus.FALLBACK, note=abridged(outcome.message))
    if not outcome.ok:
        # A reference that refuses by NotImplementedError, as that of mean(int64) does in torch
        # 2.15, gave no result that the backend should have had.
        refused = reference.outcome.status in (OutcomeStatus.RAISED, OutcomeStatus.UNSUPPORTED)
        both_raised = refused and outcome.status == OutcomeStatus.RAISED
        text = abridged(outcome.message)
        text = f"{outcome.exception}: {text}" if outcome.exception else text
        timed_out = TimedOut(outcome.seconds) if outcome.status == OutcomeStatus.TIMEOUT else None
        return Comparison(
            OutcomeStatus.BOTH_RAISED if both_raised else outcome.status,
            note=text,
            detail=timed_out,
        )
    if not reference.outcome.ok:
        return Comparison(
            OutcomeStatus.NO_REFERENCE,
            note=f"{reference.outcome.exception}: {reference.outcome.message}",
        )
    comparison = _compare_outputs(outcome, reference, baseline, known)
    found = (
        breach(reference.operator, reference.materials, reference.direction, outcome, baseline)
        if baseline is not None and not comparison.structure
        else None
    )
    return comparison if found is None else replace(comparison, contract=found[0], detail=found[1])


def _compare_outputs(
    outcome: Outcome, reference: Reference, baseline: Outcome | None, known: Comparison | None
) -> Comparison:
    """The outputs of a call that returned, as its reference did."""
    mismatch = _structure_mismatch(outcome, reference, baseline)
    if mismatch:
        return Comparison(OutcomeStatus.OK, structure=mismatch)
    if outcome.modified:
        position = outcome.modified[0]
        text = f"argument {position} was modified although the operator does not write to it"
        return Comparison(OutcomeStatus.OK, structure=text, detail=ModifiedInput(position))
    if reference.model.kind == "structure":
        return Comparison(
            OutcomeStatus.OK,
            tuple(Measured(o.name, o.dtype, _shape(o), 0) for o in outcome.outputs),
        )
    of_baseline = baseline.outputs if baseline is not None else ()
    if known is not None and known.outputs and _same_bits(outcome.outputs, of_baseline):
        return Comparison(OutcomeStatus.OK, known.outputs)
    if reference.operator.family == "user":
        _check_returned(reference.operator.name, outcome.outputs)
    try:
        outputs = reference.observed(outcome.outputs)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return Comparison(
            OutcomeStatus.OK,
            structure=f"its outputs do not fit together: {str(error).splitlines()[0][:160]}",
        )
    return Comparison(
        OutcomeStatus.OK,
        tuple([_measure(i, output, reference) for i, output in enumerate(outputs)]),
    )


def _same_bits(outputs: Sequence[Output], others: Sequence[Output]) -> bool:
    """Whether two calls returned tensors of the same dtypes, shapes and bits."""
    return len(outputs) == len(others) and all(
        a.tensor is not None
        and b.tensor is not None
        and a.dtype == b.dtype
        and a.tensor.shape == b.tensor.shape
        and torch.equal(_integers(a.tensor), _integers(b.tensor))
        for a, b in zip(outputs, others, strict=True)
    )


def _integers(tensor: torch.Tensor) -> torch.Tensor:
    parts = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return integers(parts.contiguous())


def _check_returned(name: str, outputs: Sequence[Output]) -> None:
    """Raises UsageError where a user's function returns nothing that can be judged."""
    values = [output.value for output in outputs if output.tensor is None]
    if any(isinstance(value, np.ndarray) for value in values):
        raise UsageError(
            f"{name} returns a NumPy array, which no backend computed: leave .numpy() out of it, "
            "or return tensors"
        )
    if len(values) == len(outputs) and values:
        wrong = next((v for v in values if not isinstance(v, (int, float, complex))), None)
        if wrong is not None:
            raise UsageError(
                f"{name} returns {shown(wrong, 40)}, a {type(wrong).__name__}, in which there are "
                "no numbers to compare: return tensors"
            )


def changed_state(changes: Sequence[str]) -> Comparison:
    """The comparison of a call that left global state changed."""
    names = "; ".join(change.partition(": ")[0] for change in changes)
    return Comparison(
        OutcomeStatus.OK,
        structure=f"left global state of its process changed (restored): {'; '.join(changes)}",
        detail=StateChanged(names[:MAX_TEXT]),
    )


def _shape(output: Output) -> tuple[int, ...]:
    return tuple(output.tensor.shape) if output.tensor is not None else ()


def _structure_mismatch(outcome: Outcome, reference: Reference, baseline: Outcome | None) -> str:
    """The mismatch in number, shape, dtype or layout of the outputs; empty if none."""
    expected = reference.outcome.outputs
    if len(outcome.outputs) != len(expected):
        return f"returned {len(outcome.outputs)} outputs instead of {len(expected)}"
    baseline_outputs = baseline.outputs if baseline is not None and baseline.ok else None
    for position, (actual, ref) in enumerate(zip(outcome.outputs, expected, strict=True)):
        if (actual.tensor is None) != (ref.tensor is None):
            return _wrong_kind(actual, ref)
        if actual.tensor is None or ref.tensor is None:
            if ref.value is not None and type(actual.value) is not type(ref.value):
                return _wrong_kind(actual, ref)
            continue
        if actual.tensor.shape != ref.tensor.shape:
            return (
                f"{actual.name} has shape {list(actual.tensor.shape)} instead of "
                f"{list(ref.tensor.shape)}"
            )
        dtype = (
            baseline_outputs[position].dtype
            if baseline_outputs is not None and len(baseline_outputs) > position
            else None
        )
        if dtype is not None and actual.dtype != dtype:
            return f"{actual.name} has dtype {actual.dtype} instead of {dtype}"
        if actual.tensor.layout != torch.strided:
            return f"{actual.name} is a {actual.tensor.layout} tensor"
    return ""


def _wrong_kind(actual: Output, expected: Output) -> str:
    return f"{actual.name} is {_describe_output(actual)} instead of {_describe_output(expected)}"


def _describe_output(output: Output) -> str:
    if output.tensor is not None:
        return f"a tensor of shape {list(output.tensor.shape)}"
    return "None" if output.value is None else f"a {type(output.value).__name__}"


def _measure(index: int, output: Output, reference: Reference) -> Measured:
    ref = reference.outputs[index]
    if output.tensor is None or ref.tensor is None:
        differs = bool(
            output.value != ref.value
            and not (output.value != output.value and ref.value != ref.value)
        )
        element_group = ElementGroup(
            None,
            ulp_max=float(differs),
            abs_max=float(differs),
            worst=_show_numbers(output.value, ref.value) if differs else (),
        )
        return Measured(
            output.name, output.dtype, (), 1, (element_group,), exact=True, differing=int(differs)
        )
    actual, expected = output.tensor, ref.tensor
    shape, dtype, paired = tuple(actual.shape), output.dtype, False
    if not (expected.dtype.is_floating_point and actual.dtype.is_floating_point):
        if not (actual.is_complex() or expected.is_complex()):
            return _measure_exact(output.name, dtype, shape, actual, expected, reference)
        actual, expected = _as_real(actual), _as_real(expected)
        shape, dtype, paired = tuple(actual.shape), _part_of(dtype), True
    return Floating(
        index,
        output.name,
        PARTS.get(dtype, dtype),
        shape,
        actual,
        expected,
        working_format(dtype, shape, reference, output.name),
        reference,
        paired,
    ).measured()


def _part_of(dtype: str) -> str:
    """The format of a complex result's parts. Half precision beside a complex number gives
    complex32, in which nothing else is computed."""
    return "float16" if dtype == "complex32" else PARTS.get(dtype, "float32")


def _show_numbers(actual: object, expected: object) -> tuple[Worst, ...]:
    """Both values, if they are numbers."""
    if not isinstance(actual, (bool, int, float)) or not isinstance(expected, (bool, int, float)):
        return ()
    return (Worst((), float(actual), float(expected)),)


def _as_real(tensor: torch.Tensor) -> torch.Tensor:
    """Real and imaginary parts along a new last dimension, as float64."""
    return torch.view_as_real(tensor.to(torch.complex128).resolve_conj())


def _measure_exact(
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    actual: torch.Tensor,
    expected: torch.Tensor,
    reference: Reference,
) -> Measured:
    """Integers and booleans: every difference counts. The wider reference is wrapped to the
    dtype of the result."""
    target = expected.to(actual.dtype)
    unequal = torch.ne(actual, target)
    special: dict[str, int] = {}
    special_worst: Worst | None = None
    cast = (
        judge_casts(reference.arguments.tensors[0], actual, target)
        if "cast" in reference.operator.traits
        else None
    )
    if cast is not None:
        unequal = cast.wrong
        if bool(cast.saturated.any()):
            special, special_worst = (
                {cast.kind: int(cast.saturated.sum())},
                _first_mismatch(cast.saturated, actual, target),
            )
    if reference.operator.alternatives is not None and bool(unequal.any()):
        index = [output.name for output in reference.outputs].index(name)
        for other in reference.alternatives(index):
            unequal &= actual != other.broadcast_to(actual.shape)
    differing = int(unequal.sum())
    worst: tuple[Worst, ...] = ()
    largest = 0.0
    if differing:
        difference = torch.where(
            unequal, (actual.to(torch.float64) - target.to(torch.float64)).abs(), 0.0
        )
        largest = max(float(torch.nan_to_num(difference, nan=1.0).max()), 1.0)
        worst = (_first_mismatch(unequal, actual, target),)
    element_group = ElementGroup(None, ulp_max=largest, abs_max=largest, worst=worst)
    vacuous = "empty output: only shape and dtype could be checked" if not actual.numel() else ""
    if cast is not None and cast.nothing_defined:
        vacuous = "every number lies beyond the integer's range, where nothing is defined"
    pattern = ""
    if differing and "random" in reference.operator.traits and actual.dtype == torch.bool:
        pattern = _UNLIKELY if reference.outputs[-1].name == name else _IMPOSSIBLE
    return Measured(
        name, dtype, shape, actual.numel(), (element_group,), exact=True, differing=differing,
        special=special, special_worst=special_worst,
        vacuous=vacuous, pattern=pattern,
    )  # fmt: skip


# Outputs of random operators are flags: values that are possible, and a likely distribution.
_IMPOSSIBLE, _UNLIKELY = (
    "numbers that its distribution does not have",
    "not distributed as it should be (beyond 6 σ)",
)


def _first_mismatch(mask: torch.Tensor, actual: torch.Tensor, expected: torch.Tensor) -> Worst:
    """The first element of ``mask``."""
    index = tuple(int(i) for i in torch.nonzero(mask)[0])
    return Worst(index, float(actual[index]), float(expected[index]))
