"""Checks of the reference by more precise numbers and by certificates, in one of three modes.

- ``float64``: nothing is proved beforehand;
- ``spot``: for cases in float64, complex128, integers and booleans, some elements are proved,
  forward and backward: in each case without an independent reference (one of each output with
  more work, where the limit stopped four), and in a quarter of the others; around the edges of a
  function more of them;
- ``verified``: up to :data:`LIMIT` elements of each output are proved.

Proved values replace those of float64 on the CPU for every dtype and backend of the case. In any
mode, nothing fails before its worst element is proved (:mod:`consistency.judge.evidence`). Where
NumPy's long double is more precise than float64 (x86), independent NumPy implementations in long
double check all elements of forward results; NumPy's integers check integer results.
"""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..backends.numpy.backend import Numpy
from ..core import dtypes
from ..core.model import Outcome, Output
from ..core.verdict import OutcomeStatus
from ..errors import UsageError, did_you_mean
from . import Reference
from .edge_spots import at_edges
from .magnitudes import floats
from .proofs import SECONDS, spots

MODES = ("float64", "spot", "verified")
EACH = "each"  # as spot, but for every dtype; for commands that look at one case
ITSELF_OFF = "float64 on the CPU is itself off"  # beginning of the explanation of such a verdict
LIMIT = 4096
SPOTS = 4  # elements of an output that a spot check proves
WORK = 20_000  # limit for one output of a spot check, in computed elements of all nodes
LAST_WORK = 500_000  # the same for one element, where nothing else judges the CPU
ONE_CASE_IN = 4  # share of cases with an independent reference that are spot-checked
ALL_OUTPUTS = 10.0  # time limit in seconds for spot checks of all outputs of one call
CLOSER = 64  # elements to prove after one of them showed that the CPU is wrong
# Operators of whole numbers of which torch's sizes decide the dtype (docs/findings.md): in NumPy's,
# which may be narrower, other numbers wrap.
_DTYPE_BY_SIZES = frozenset({"einsum"})
VERIFYING = 60.0  # time limit in seconds for all elements of one output


@functools.cache
def _numpy() -> Numpy:
    return Numpy()


def usable(mode: str) -> str:
    """``mode``, or a UsageError."""
    if mode not in MODES:
        raise UsageError(
            f"unknown reference "
            f"{mode!r}{did_you_mean(mode, MODES) or '; known: ' + ', '.join(MODES)}"
        )
    return mode


def spot_checked(dtype: str) -> bool:
    """Whether spot checks include cases of ``dtype``: float64, complex128, integers, booleans."""
    return dtype in ("float64", "complex128") or not dtypes.floats(dtype)


def refine(reference: Reference, mode: str = "float64") -> None:
    """Check and correct ``reference`` by a more precise computation, where one is available; sets
    ``independent``."""
    dtype = reference.materials.case.dtype
    if (
        not reference.outcome.ok
        or reference.model.kind == "structure"
        or "random" in reference.operator.traits
    ):
        return
    forward = reference.direction == "forward"
    if (
        forward
        and not reference.operator.mutates
        and not reference.independent
        and reference.operator.observe is None
    ):
        if dtype in ("float64", "complex128"):
            _long_double(reference)
        elif not dtypes.floats(dtype):
            _integers(reference)
    if mode == "verified":
        _prove(reference, LIMIT, seconds=VERIFYING)
    elif mode == EACH:
        _prove(reference, SPOTS)
    elif mode == "spot" and spot_checked(dtype):
        digest = reference.materials.case.digest
        if not reference.independent or int(digest[:8], 16) % ONE_CASE_IN == 0:
            _prove(reference, SPOTS, WORK)
        if not reference.independent:
            _insist(reference)


def _insist(reference: Reference) -> None:
    """Prove one element of each output that has none, with more work, until one cannot be
    proved, or not in time."""
    until = time.thread_time() + ALL_OUTPUTS
    for index, output in enumerate(reference.outputs):
        if output.tensor is None or not output.tensor.numel() or reference.proofs.count(index):
            continue
        places = spots(reference.materials.case.digest, index, output.tensor.numel(), 1)
        reference.proofs.settle(index, places, SECONDS, LAST_WORK)
        if not reference.proofs.count(index) or time.thread_time() > until:
            return
    _prove(reference, 1, LAST_WORK)


def _prove(
    reference: Reference, count: int, work: float = math.inf, seconds: float = SECONDS
) -> None:
    """Prove up to ``count`` elements of each output, and more if the CPU turns out to be wrong.

    The reference is ``independent`` if at least one element of each output is proved. Of a call
    with thousands of outputs those are left out that are not reached in time.
    """
    proofs, everywhere, total, certified = reference.proofs, True, 0, 0
    until = time.thread_time() + (ALL_OUTPUTS if count < LIMIT else math.inf)
    for index, output in enumerate(reference.outputs):
        if output.tensor is None:
            if output.value is not None:  # tracing fails unless such numbers are exact
                total, certified = total + 1, certified + proofs.traced()
            continue
        if not output.tensor.numel():
            continue
        size = output.tensor.numel()
        if time.thread_time() > until:
            everywhere, total = False, total + size
            continue
        chosen = spots(reference.materials.case.digest, index, size, count)
        if count == SPOTS:
            edges = at_edges(reference.materials, size, CLOSER)
            chosen = sorted({*chosen, *edges, *_not_finite(reference, output.tensor)})
        proofs.settle(index, chosen, seconds, work)
        if count < CLOSER and any(i == index for i, _ in proofs.wrong):
            proofs.settle(index, spots(reference.materials.case.digest, index, size, CLOSER))
        count_here = proofs.count(index)
        everywhere, total, certified = (
            everywhere and count_here > 0,
            total + size,
            certified + count_here,
        )
    if certified:
        reference.independent = reference.independent or everywhere
        reference.verified = (
            "" if certified == total else f"certified at {certified:,} of {total:,} elements"
        )


def _not_finite(reference: Reference, output: torch.Tensor) -> Iterator[int]:
    """The flat positions of the first NaN and of the first infinity where all inputs are finite:
    every kernel may share the formula that makes them."""
    if not floats(output) or reference.materials.holds_special_values:
        return
    for kind in (output.isnan(), output.isinf()):
        if kind.any():
            yield int(kind.reshape(-1).int().argmax())


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
            tails.append(torch.from_numpy(_tails_by_part(exact, high)))
            continue
        with np.errstate(over="ignore"):
            high = exact.astype(np.float64)
        # Below 2**1024 the largest number and a tail, not infinity: a result may round to either.
        within = np.isinf(high) & (np.abs(exact) < np.ldexp(np.longdouble(1.0), 1024))
        high = np.where(within, np.copysign(sys.float_info.max, high), high)
        # Tails of these numbers would be subnormal, and the conversion rounds a second time: keep
        # the CPU's result, rounded once, if it is at most one ulp away.
        rounded_once = output.tensor.numpy()
        high = np.where(
            (np.abs(high) < 2.0**-960) & (np.abs(rounded_once - high) <= np.spacing(np.abs(high))),
            rounded_once,
            high,
        )
        tail = np.where(np.isfinite(high) & (np.abs(high) > 2.0**-960), exact - high, 0.0).astype(
            np.float64
        )
        outputs.append(Output(output.name, torch.from_numpy(high), output.dtype))
        tails.append(torch.from_numpy(tail))
    reference.outputs, reference.tails, reference.independent = tuple(outputs), tuple(tails), True
    reference.by_numpy = True
    reference.outcome = Outcome(OutcomeStatus.OK, tuple(outputs))


def _tails_by_part(exact: npt.NDArray[Any], high: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """``exact - high``, and 0 in parts that are not finite or too small."""
    tail = np.empty_like(high)
    for name in ("real", "imag"):
        part = getattr(high, name)
        is_normal = np.isfinite(part) & (np.abs(part) > 2.0**-960)
        setattr(
            tail, name, np.where(is_normal, getattr(exact, name) - part, 0.0).astype(np.float64)
        )
    return tail


def _integers(reference: Reference) -> None:
    if reference.operator.ruled_by[0] in _DTYPE_BY_SIZES:
        return
    outcome = _numpy().run(reference.operator, reference.materials)
    shapes = [(o.tensor.shape if o.tensor is not None else None) for o in reference.outputs]
    if (
        not outcome.ok
        or [(o.tensor.shape if o.tensor is not None else None) for o in outcome.outputs] != shapes
    ):
        return
    reference.outputs, reference.independent, reference.by_numpy = outcome.outputs, True, True
