"""A reference for what float64 on the CPU cannot judge: itself, and integers.

Where NumPy's long double is wider than float64 (x86), independent NumPy implementations evaluated in it stand behind float64
results; integer and boolean results are checked against NumPy's. Where neither exists, the CPU stays its own reference, and its
verdict there is ``undecidable``. Above that stand the oracles (:mod:`consistency.oracles`), in one of three modes:

``float64``   none is asked
``spot``      a fixed choice of cases, and of these some elements; where the CPU turns out to be wrong, more of that case (and what
              costs next to nothing: where numbers are only moved, chosen or compared)
``verified``  every case, all elements up to :data:`LIMIT`, evenly spaced ones beyond

What an oracle says takes the place of float64 on the CPU for every dtype and every backend of the case.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from . import dtypes, operators, oracles
from .backends.numpy_backend import Numpy
from .errors import UsageError, did_you_mean
from .magnitudes import floats
from .model import Outcome, Output
from .oracles import Answer, Oracle, Unsure, gradients
from .reference import Reference

MODES = ("float64", "spot", "verified")
EACH = "each"  # as spot, but for every case: what a command asks for that looks at one
ITSELF_OFF = "float64 on the CPU is itself off"  # how such a verdict's sentence begins
LIMIT = 4096
GRADIENTS = 512  # elements of a gradient, each of which takes three values of many bits
SPOTS, CLOSER = 16, 64  # elements of a spot check, and of the closer look where one is off
ONE_CASE_IN = 4
_OFF = 16.0  # ulp: float64 on the CPU may be further off, which is for the judge to say, but then it is no reference


@functools.cache
def _numpy() -> Numpy:
    return Numpy()


def usable(mode: str) -> str:
    """``mode``, or a UsageError: an unknown one, or ``verified`` without mpmath."""
    if mode not in MODES:
        raise UsageError(f"unknown reference {mode!r}{did_you_mean(mode, MODES) or '; known: ' + ', '.join(MODES)}")
    if mode == "verified" and not oracles.available():
        raise UsageError("reference 'verified' needs mpmath, which cannot be imported: pip install 'consistency[mpmath]'")
    return mode


def sharpen(reference: Reference, mode: str = "float64") -> None:
    """Put something better than the CPU behind ``reference``, where there is something; sets ``independent``."""
    dtype = reference.materials.case.dtype
    if reference.operator.mutates or reference.outcome.status != "ok":
        return
    each = mode == EACH or (mode == "spot" and int(reference.materials.case.digest[:8], 16) % ONE_CASE_IN == 0)
    if reference.direction == "backward":
        if mode == "verified" or (each and dtype == "float64"):
            _gradients(reference, GRADIENTS if mode == "verified" else SPOTS)
        return
    if mode == "verified" and _by_oracle(reference, LIMIT):
        return
    if not reference.independent and reference.operator.observe is None:
        if dtype in ("float64", "complex128"):
            _long_double(reference)
        elif not dtypes.floats(dtype):
            _integers(reference)
    if dtype == "float64" and (reference.independent or mode == "float64"):
        return
    if each or dtype == "float64":
        _spot(reference, only_exact=not each)


def _oracle(reference: Reference) -> Oracle | None:
    """The oracle, provided that the operator is the registry's and not one of a user's that has its name."""
    known = operators.registry().get(reference.operator.name)
    if known is None or known.callable is not reference.operator.callable or reference.materials.case.dtype not in dtypes.FORMATS:
        return None
    return oracles.of(known)


def _gradients(reference: Reference, most: int) -> None:
    """An oracle's gradients in place of the CPU's; where it looked at a few of many only if they show that the CPU is off."""
    operator = operators.registry().get(reference.operator.name)
    if operator is None or operator.callable is not reference.operator.callable or not gradients.knows(operator):
        return
    if reference.materials.case.dtype not in dtypes.FORMATS:
        return
    arguments = reference.materials.build("float64", gradients=operator.leaves)
    if most < GRADIENTS and sum(tensor.numel() for tensor in arguments.tensors) > CLOSER:
        return
    stop = reference.materials.case.cotangent
    answers = _fitting(reference, lambda: gradients.evaluate(operator, arguments, stop, most))
    if answers is None:
        return
    if most == GRADIENTS or _off(reference, answers) or all(answer.complete for answer in answers):
        _replace(reference, answers)


def _asked(oracle: Oracle, reference: Reference, most: int) -> list[Answer] | None:
    return _fitting(reference, lambda: oracle(tuple(reference.arguments.args), reference.arguments.kwargs, most))


def _fitting(reference: Reference, ask: Callable[[], list[Answer]]) -> list[Answer] | None:
    """The answers, if they fit the outputs that they are about."""
    try:
        answers = ask()
    except Unsure:
        return None
    tensors = [output.tensor for output in reference.outcome.outputs]
    if len(answers) != len(tensors):
        return None
    for tensor, answer in zip(tensors, answers, strict=True):
        if tensor is None and reference.direction == "backward" and not answer.high.any():
            continue  # no gradient at all, which stands for zeros
        if tensor is None or tuple(tensor.shape) != answer.shape:
            return None
        if reference.direction == "forward" and reference.operator.observe is not None and not tensor.is_floating_point():
            return None  # positions of what is chosen, of which several may be right
        if tensor.dtype != torch.float64 and (answer.tail is not None or answer.high.dtype.kind == "f"):
            return None
    return answers


def _by_oracle(reference: Reference, most: int) -> bool:
    oracle = _oracle(reference)
    answers = _asked(oracle, reference, most) if oracle is not None else None
    if answers is None:
        return False
    _replace(reference, answers)
    return True


def _spot(reference: Reference, *, only_exact: bool) -> None:
    oracle = _oracle(reference)
    if oracle is None or not _cheap(oracle, reference) or (only_exact and oracle.source != "exact"):
        return
    answers = _asked(oracle, reference, SPOTS)
    if answers is None:
        return
    if _off(reference, answers) and not all(answer.complete for answer in answers):
        answers = _asked(oracle, reference, CLOSER) or answers
    elif not all(answer.complete for answer in answers):
        return
    _replace(reference, answers)


def _cheap(oracle: Oracle, reference: Reference) -> bool:
    """Whether an answer takes about a millisecond."""
    if oracle.source in ("mpmath", "exact"):
        return True
    into = sum(tensor.numel() for tensor in reference.arguments.tensors)
    out = sum(output.tensor.numel() for output in reference.outcome.outputs if output.tensor is not None)
    return into + out <= 64 if oracle.source == "formulas" else into + out <= 1024 and into * out <= 1 << 18


def _off(reference: Reference, answers: Sequence[Answer]) -> bool:
    """Whether float64 on the CPU is further from the answers than a few ulp anywhere, or not finite where they are."""
    for output, answer in zip(reference.outcome.outputs, answers, strict=True):
        if output.tensor is None:
            continue
        own = output.tensor.numpy().reshape(-1)
        own = own if answer.places is None else own[answer.places]
        if own.dtype.kind != "f":
            if not np.array_equal(own, answer.high):
                return True
            continue
        same = (own == answer.high) | ((own != own) & (answer.high != answer.high))
        error = np.abs(own - answer.high - (0.0 if answer.tail is None else answer.tail))
        if not (same | (error <= _OFF * np.spacing(np.maximum(np.abs(answer.high), np.finfo(np.float64).tiny)))).all():
            return True
    return False


def _replace(reference: Reference, answers: Sequence[Answer]) -> None:
    """The answers in place of the CPU's float64, which stays where they do not reach. The sign of a zero stays, too."""
    outputs: list[Output] = []
    tails: list[torch.Tensor | None] = []
    known = total = 0
    for output, answer in zip(reference.outcome.outputs, answers, strict=True):
        if output.tensor is None:
            outputs.append(output)
            tails.append(None)
            continue
        high = output.tensor.detach().numpy().reshape(-1).copy()
        places = slice(None) if answer.places is None else answer.places
        known, total = known + answer.high.size, total + high.size
        zeros = (high[places] == 0) & (answer.high == 0)
        tail = np.zeros(high.shape)
        high[places] = np.where(zeros, high[places], answer.high)
        if answer.tail is not None:
            tail[places] = answer.tail
        outputs.append(Output(output.name, torch.from_numpy(high.reshape(answer.shape)), output.dtype))
        tails.append(None if answer.tail is None else torch.from_numpy(tail.reshape(answer.shape)))
    reference.outcome = Outcome("ok", tuple(outputs))
    reference.outputs = reference.observed(tuple(outputs))
    backward = reference.direction == "backward"
    observed = (reference.operator.observe_gradients if backward else reference.operator.observe) is not None
    reference.tails = (None,) * len(reference.outputs) if observed else tuple(tails)
    reference.independent = reference.independent or 2 * known >= min(total, GRADIENTS if backward else LIMIT)
    reference.verified = "" if known == total else f"verified at {known} of {total} elements"


def _long_double(reference: Reference) -> None:
    wide = _numpy().wide(reference.operator, reference.materials)
    if wide is None or len(wide) != len(reference.outputs):
        return
    outputs: list[Output] = []
    tails: list[torch.Tensor | None] = []
    for output, exact in zip(reference.outputs, wide, strict=True):
        if output.tensor is None or not floats(output.tensor) or output.tensor.shape != exact.shape:
            return
        if output.tensor.is_complex() != (exact.dtype.kind == "c"):
            return
        if exact.dtype.kind == "c":
            high = exact.astype(np.complex128)
            outputs.append(Output(output.name, torch.from_numpy(high), output.dtype))
            tails.append(torch.from_numpy(_parts_apart(exact, high)))
            continue
        high = exact.astype(np.float64)
        # Here a tail would be subnormal, and numbers have been rounded twice: the CPU's own, rounded once, may be one step beside.
        once = output.tensor.numpy()
        high = np.where((np.abs(high) < 2.0**-960) & (np.abs(once - high) <= np.spacing(np.abs(high))), once, high)
        tail = np.where(np.isfinite(high) & (np.abs(high) > 2.0**-960), exact - high, 0.0).astype(np.float64)
        outputs.append(Output(output.name, torch.from_numpy(high), output.dtype))
        tails.append(torch.from_numpy(tail))
    reference.outputs, reference.tails, reference.independent = tuple(outputs), tuple(tails), True
    reference.outcome = Outcome("ok", tuple(outputs))


def _parts_apart(exact: npt.NDArray[Any], high: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """``exact - high``, and 0 in the parts where that is no number."""
    tail = np.empty_like(high)
    for name in ("real", "imag"):
        part = getattr(high, name)
        known = np.isfinite(part) & (np.abs(part) > 2.0**-960)
        setattr(tail, name, np.where(known, getattr(exact, name) - part, 0.0).astype(np.float64))
    return tail


def _integers(reference: Reference) -> None:
    outcome = _numpy().run(reference.operator, reference.materials)
    shapes = [(o.tensor.shape if o.tensor is not None else None) for o in reference.outputs]
    if outcome.status != "ok" or [(o.tensor.shape if o.tensor is not None else None) for o in outcome.outputs] != shapes:
        return
    reference.outputs, reference.independent = outcome.outputs, True
