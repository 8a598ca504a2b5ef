"""A reference for what float64 on the CPU cannot judge: itself, and integers.

Where NumPy's long double is wider than float64 (x86), independent NumPy implementations evaluated in it stand behind float64
results; integer and boolean results are checked against NumPy's. Where neither exists, the CPU stays its own reference, and its
verdict there is ``undecidable``.
"""

from __future__ import annotations

import functools

import numpy as np
import torch

from . import dtypes
from .backends.numpy_backend import Numpy
from .model import Outcome, Output
from .reference import Reference


@functools.cache
def _numpy() -> Numpy:
    return Numpy()


def sharpen(reference: Reference) -> None:
    """Put something better than the CPU behind ``reference``, where there is something; sets ``independent``."""
    dtype = reference.materials.case.dtype
    plain = reference.direction == "forward" and reference.operator.observe is None and not reference.operator.mutates
    if reference.independent or not plain or reference.outcome.status != "ok":
        return
    if dtype == "float64":
        _long_double(reference)
    elif dtype not in dtypes.FORMATS:
        _integers(reference)


def _long_double(reference: Reference) -> None:
    wide = _numpy().wide(reference.operator, reference.materials)
    if wide is None or len(wide) != len(reference.outputs):
        return
    outputs: list[Output] = []
    tails: list[torch.Tensor | None] = []
    for output, exact in zip(reference.outputs, wide, strict=True):
        if output.tensor is None or not output.tensor.dtype.is_floating_point or output.tensor.shape != exact.shape:
            return
        high = exact.astype(np.float64)
        # Here a tail would be subnormal, and numbers have been rounded twice: the CPU's own, rounded once, may be one step beside.
        once = output.tensor.numpy()
        high = np.where((np.abs(high) < 2.0**-960) & (np.abs(once - high) <= np.spacing(np.abs(high))), once, high)
        tail = np.where(np.isfinite(high) & (np.abs(high) > 2.0**-960), exact - high, 0.0).astype(np.float64)
        outputs.append(Output(output.name, torch.from_numpy(high), output.dtype))
        tails.append(torch.from_numpy(tail))
    reference.outputs, reference.tails, reference.independent = tuple(outputs), tuple(tails), True
    reference.outcome = Outcome("ok", tuple(outputs))


def _integers(reference: Reference) -> None:
    outcome = _numpy().run(reference.operator, reference.materials)
    shapes = [(o.tensor.shape if o.tensor is not None else None) for o in reference.outputs]
    if outcome.status != "ok" or [(o.tensor.shape if o.tensor is not None else None) for o in outcome.outputs] != shapes:
        return
    reference.outputs, reference.independent = outcome.outputs, True
