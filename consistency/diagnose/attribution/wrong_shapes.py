"""Results of another shape than the right one: the call with another argument that has this shape
and these numbers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import torch

from ...core import dtypes
from ...core.model import Cause, Outcome
from ...operators.refusals import REFUSALS
from ...reference import Reference
from . import calls
from .simulation import Doubles, Simulation, flat

SECONDS = 2.0  # of this thread's processor time
_ULPS = 64.0  # of the largest number: what rounding may make of such a call's result


class WrongShape(Simulation):
    """A flagged output that cannot be compared element by element.

    Raises ValueError where a tensor is lacking, where the shapes do not differ, or where the result
    has no numbers, which would agree with any.
    """

    def __init__(self, reference: Reference, outcome: Outcome, output: str) -> None:
        super().__init__(reference, outcome, output)
        if self.raw is None or not self.raw.numel() or self.index >= len(reference.outputs):
            raise ValueError("no numbers to explain")
        expected = reference.outputs[self.index].tensor
        if expected is None or expected.shape == self.raw.shape:
            raise ValueError("not of another shape")
        self.actual = flat(self.raw)
        self.distinct = np.unique(self.actual).size

    def explained_by(self, simulated: torch.Tensor | None) -> bool:
        """Whether shape and numbers are the simulated ones, NaN and infinities where they are."""
        assert self.raw is not None
        if simulated is None or simulated.shape != self.raw.shape:
            return False
        predicted = flat(simulated)
        form = dtypes.form_of(dtypes.name_of(self.raw.dtype))
        allowed = 0.0 if form is None else _ULPS * 2.0 * form.unit_roundoff * _largest(predicted)
        with np.errstate(all="ignore"):
            near = np.abs(self.actual - predicted) <= allowed
        both = np.isnan(self.actual) & np.isnan(predicted)
        return bool((near | both | (self.actual == predicted)).all())


def _wrong_ones(reference: Reference, outcome: Outcome) -> Iterator[WrongShape]:
    for output in reference.outputs:
        try:
            yield WrongShape(reference, outcome, output.name)
        except REFUSALS:
            continue


def _largest(numbers: Doubles) -> float:
    return float(np.max(np.abs(numbers[np.isfinite(numbers)]), initial=0.0))


def cause_of_shape(reference: Reference, outcome: Outcome) -> Cause | None:
    """An ignored argument that explains the shape and the numbers of the first output that has
    another shape; None where there is none, or it is not found in time."""
    wrong = next(_wrong_ones(reference, outcome), None)
    if wrong is None:
        return None
    deadline = time.thread_time() + SECONDS
    for hypothesis in calls.hypotheses(wrong):
        if time.thread_time() > deadline:
            return None
        try:
            predicted = hypothesis.simulate()
        except REFUSALS:
            continue
        if wrong.index < len(predicted) and wrong.explained_by(predicted[wrong.index].tensor):
            return Cause(hypothesis.name, hypothesis.words, 1.0)
    return None
