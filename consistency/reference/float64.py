"""The reference: the operator in float64 on the same inputs, and S, the magnitude of the summed
terms.

A :class:`Reference` is built once per case and direction and serves every backend. S is computed
only when an error exceeds what correct rounding explains, because it takes more runs of the
operator.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..backends.base import failed
from ..core import dtypes
from ..core.model import Case, Outcome, Output
from ..core.verdict import OutcomeStatus
from ..generate.materialize import Materials
from ..operators.declare import Operator
from .changed_inputs import called
from .computed_format import computed_dtype
from .converted_integers import converted
from .error_magnitudes import ErrorMagnitudes
from .magnitudes import floats
from .proofs import Proofs
from .written_integers import are_computed_otherwise


def _decisive(case: Case) -> str:
    """The case's dtype, or the complex one that belongs to it where another tensor is complex: so
    is the result, and errors are relative to its modulus."""
    if case.dtype in dtypes.PARTS or not any(t.dtype in dtypes.PARTS for t in case.tensors):
        return case.dtype
    return dtypes.beside(case.dtype)


class Reference(ErrorMagnitudes):
    """The float64 outcome of one case in one direction; S, n and G are computed on demand.

    ``outcome`` is the raw float64 :class:`Outcome`; ``outputs`` are the quantities to compare
    (after the operator's ``observe`` hook). ``tails`` are, per output, corrections to add to the
    float64 values (from a more precise reference), or None. ``independent`` is False if the
    reference is only the CPU's own computation in the tested dtype. ``verified`` is None unless
    elements were proved, and then says how many (empty: all of them). Build and use a Reference
    under :func:`quiet`, because torch's warnings are passed through.
    """

    def __init__(self, operator: Operator, materials: Materials, direction: str) -> None:
        super().__init__(operator, materials, direction)
        self.verified: str | None = None
        self.integers_too = False  # whether integers were made float64 before the call
        self.by_numpy = False  # whether NumPy computed all outputs
        # By output and precision (judge.error_scale):
        self.error_models: dict[tuple[int, int], float | tuple[float, float, float]] = {}
        # By output: its numbers, and whether they repeat (judge.measurement):
        self.repeated: dict[int, tuple[Any, bool]] = {}
        # By output: flattened arrays that comparisons share (judge.elements):
        self.flattened: dict[int, tuple[Any, ...]] = {}
        self.dtype = _decisive(materials.case)
        self.model = operator.error.of(self.dtype)
        wide = computed_dtype(operator, materials)
        self.independent = (
            dtypes.floats(materials.case.dtype)
            and materials.case.dtype not in ("float64", "complex128")
            if wide is not None
            else operator.reference is not None
        )
        backward = direction == "backward"
        arguments = materials.build(wide, gradients=backward and operator.leaves)
        as_computed = converted(operator, materials, [t.ndim for t in arguments.tensors])
        if as_computed is not materials:
            self.materials = as_computed
            arguments = as_computed.build(wide, gradients=backward and operator.leaves)
        try:
            self.outcome = Outcome(OutcomeStatus.OK, called(operator, arguments, backward))
        except Exception as error:  # reported as a case without a reference
            self.outcome = failed(error)
        if not backward and not operator.mutates:
            self.arguments = arguments
        fractions = any(o.tensor is not None and floats(o.tensor) for o in self.outcome.outputs)
        whole = fractions and not dtypes.floats(materials.case.dtype)
        if whole and wide is not None and not are_computed_otherwise(operator, materials):
            self._float_integers()
        self.outputs: tuple[Output, ...] = self.observed(self.outcome.outputs)
        flags = [
            o.tensor for o in self.outputs if o.tensor is not None and o.tensor.dtype == torch.bool
        ]
        if "random" in operator.traits and flags and len(flags) == len(self.outputs):
            # Checks of a random operator must all be True, whatever was drawn here.
            self.independent = True
            self.outputs = tuple(
                replace(o, tensor=torch.ones_like(f))
                for o, f in zip(self.outputs, flags, strict=True)
            )
        self.tails: tuple[torch.Tensor | None, ...] = (None,) * len(self.outputs)

    def _float_integers(self) -> None:
        """For integer inputs and float results, which torch computes in float32: start again from
        float64 inputs."""
        try:
            arguments = self.materials.build("float64", integers_too=True)
            self.outcome = Outcome(OutcomeStatus.OK, called(self.operator, arguments, False))
            self.independent = self.integers_too = True
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
            return  # the operator takes integers only: keep its own result as the reference

    @functools.cached_property
    def proofs(self) -> Proofs:
        """The proved elements of this reference."""
        return Proofs(self)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings of torch and NumPy about the reference computations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with np.errstate(all="ignore"):
            yield
