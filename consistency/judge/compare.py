"""Compare an outcome with its reference: structure, special values, and the measurements that the
judge needs.

No tolerance enters here. What is recorded (see :class:`~consistency.core.model.Measured`) gives the
exact max ρ for any c and λ.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from ..core.detail import ModifiedInput, TimedOut
from ..core.dtypes import FORMATS, PARTS, form_of
from ..core.model import Comparison, ElementGroup, Measured, Outcome, Output, Worst
from ..core.verdict import OutcomeStatus
from ..reference import Reference
from ..reference.integer_casts import judge_casts
from .measurement import Floating


def compare(outcome: Outcome, reference: Reference, baseline: Outcome | None = None) -> Comparison:
    """Measure ``outcome`` against ``reference``; ``baseline`` (the CPU in the same dtype) says
    which dtypes to expect.

    NumPy's floating warnings are expected on the way: call it under
    :func:`consistency.reference.quiet`.
    """
    if outcome.unsteady:
        return replace(
            compare(replace(outcome, unsteady=""), reference, baseline), unsteady=outcome.unsteady
        )
    if outcome.status == OutcomeStatus.FALLBACK and outcome.outputs and reference.outcome.ok:
        # What fell back is not tested; but it may come back wrong, or empty.
        found = compare(replace(outcome, status=OutcomeStatus.OK), reference, baseline)
        return replace(found, status=OutcomeStatus.FALLBACK, note=outcome.message)
    if not outcome.ok:
        both = outcome.status == reference.outcome.status == OutcomeStatus.RAISED
        text = f"{outcome.exception}: {outcome.message}" if outcome.exception else outcome.message
        late = TimedOut(outcome.seconds) if outcome.status == OutcomeStatus.TIMEOUT else None
        return Comparison(
            OutcomeStatus.BOTH_RAISED if both else outcome.status, note=text, detail=late
        )
    if not reference.outcome.ok:
        return Comparison(
            OutcomeStatus.NO_REFERENCE,
            note=f"{reference.outcome.exception}: {reference.outcome.message}",
        )
    wrong = _structure(outcome, reference, baseline)
    if wrong:
        return Comparison(OutcomeStatus.OK, structure=wrong)
    if outcome.modified:
        position = outcome.modified[0]
        text = f"argument {position} was modified although the operator does not write to it"
        return Comparison(OutcomeStatus.OK, structure=text, detail=ModifiedInput(position))
    if reference.model.kind == "structure":
        return Comparison(
            OutcomeStatus.OK,
            tuple(Measured(o.name, o.dtype, _shape(o), 0) for o in outcome.outputs),
        )
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


def _shape(output: Output) -> tuple[int, ...]:
    return tuple(output.tensor.shape) if output.tensor is not None else ()


def _structure(outcome: Outcome, reference: Reference, baseline: Outcome | None) -> str:
    """What is wrong with number, shape, dtype or device of the outputs, or with inputs that were
    modified; empty if nothing."""
    expected = reference.outcome.outputs
    if len(outcome.outputs) != len(expected):
        return f"returned {len(outcome.outputs)} outputs instead of {len(expected)}"
    same = baseline.outputs if baseline is not None and baseline.ok else None
    for position, (got, want) in enumerate(zip(outcome.outputs, expected, strict=True)):
        if (got.tensor is None) != (want.tensor is None):
            return f"{got.name} is {_what(got)} instead of {_what(want)}"
        if got.tensor is None or want.tensor is None:
            if want.value is not None and type(got.value) is not type(want.value):
                return f"{got.name} is {_what(got)} instead of {_what(want)}"
            continue
        if got.tensor.shape != want.tensor.shape:
            return (
                f"{got.name} has shape {list(got.tensor.shape)} instead of "
                f"{list(want.tensor.shape)}"
            )
        dtype = same[position].dtype if same is not None and len(same) > position else None
        if dtype is not None and got.dtype != dtype:
            return f"{got.name} has dtype {got.dtype} instead of {dtype}"
        if got.tensor.layout != torch.strided:
            return f"{got.name} is a {got.tensor.layout} tensor"
    return ""


def _what(output: Output) -> str:
    if output.tensor is not None:
        return f"a tensor of shape {list(output.tensor.shape)}"
    return "None" if output.value is None else f"a {type(output.value).__name__}"


def _measure(index: int, output: Output, reference: Reference) -> Measured:
    want = reference.outputs[index]
    if output.tensor is None or want.tensor is None:
        differs = bool(
            output.value != want.value
            and not (output.value != output.value and want.value != want.value)
        )
        element_group = ElementGroup(
            None,
            ulp_max=float(differs),
            abs_max=float(differs),
            worst=_show_numbers(output.value, want.value) if differs else (),
        )
        return Measured(
            output.name, output.dtype, (), 1, (element_group,), exact=True, differing=int(differs)
        )
    actual, expected = output.tensor, want.tensor
    shape, dtype, paired = tuple(actual.shape), output.dtype, False
    if not (expected.dtype.is_floating_point and actual.dtype.is_floating_point):
        if not (actual.is_complex() or expected.is_complex()):
            return _exact(output.name, dtype, shape, actual, expected, reference)
        actual, expected = _as_real(actual), _as_real(expected)
        shape, dtype, paired = tuple(actual.shape), PARTS.get(dtype, "float32"), True
    form = form_of(dtype) or form_of(reference.materials.case.dtype) or FORMATS["float32"]
    return Floating(
        index,
        output.name,
        PARTS.get(dtype, dtype),
        shape,
        actual,
        expected,
        form,
        reference,
        paired,
    ).measured()


def _show_numbers(actual: object, expected: object) -> tuple[Worst, ...]:
    """Both values, where they are numbers."""
    if not isinstance(actual, (bool, int, float)) or not isinstance(expected, (bool, int, float)):
        return ()
    return (Worst((), float(actual), float(expected)),)


def _as_real(tensor: torch.Tensor) -> torch.Tensor:
    """Real and imaginary parts along a new last dimension, as float64."""
    return torch.view_as_real(tensor.to(torch.complex128).resolve_conj())


def _exact(
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    actual: torch.Tensor,
    expected: torch.Tensor,
    reference: Reference,
) -> Measured:
    """Integers and booleans: every difference counts. The reference is wider and wraps as the
    result's dtype does."""
    wanted = expected.to(actual.dtype)
    unequal = torch.ne(actual, wanted)
    special: dict[str, int] = {}
    special_worst: Worst | None = None
    cast = (
        judge_casts(reference.arguments.tensors[0], actual, wanted)
        if "cast" in reference.operator.traits
        else None
    )
    if cast is not None:
        unequal = cast.wrong
        if bool(cast.saturated.any()):
            special, special_worst = (
                {cast.kind: int(cast.saturated.sum())},
                _first(cast.saturated, actual, wanted),
            )
    differing = int(unequal.sum())
    worst: tuple[Worst, ...] = ()
    largest = 0.0
    if differing:
        gap = torch.where(unequal, (actual.to(torch.float64) - wanted.to(torch.float64)).abs(), 0.0)
        largest = max(float(torch.nan_to_num(gap, nan=1.0).max()), 1.0)
        worst = (_first(unequal, actual, wanted),)
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


# Random operators are seen as flags of what is possible, and of what is likely.
_IMPOSSIBLE, _UNLIKELY = (
    "numbers that its distribution does not have",
    "not distributed as it should be (beyond 6 σ)",
)


def _first(mask: torch.Tensor, actual: torch.Tensor, wanted: torch.Tensor) -> Worst:
    """The first element of ``mask``."""
    index = tuple(int(i) for i in torch.nonzero(mask)[0])
    return Worst(index, float(actual[index]), float(wanted[index]))
