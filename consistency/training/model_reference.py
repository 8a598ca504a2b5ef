"""The float64 reference of a subject, and its replicas in which every number is perturbed."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

import torch

from ..reference.perturbation import ReplicaPerturbation
from . import rounding_envelope
from .float64_mode import Float64Mode, FormatRecorder, WorkingFormats
from .model_run import ModelRun, quietly
from .reference_samples import Distances, Key, ReferenceTrace, Tap, TensorSampler
from .trace.modules import Modules
from .training_task import Subject, users_own

Progress = Callable[[str, int, int], None]
_SINGLE = 24  # bits of an input's significand


class ModelReference:
    """The ``trace`` of a subject in float64, and the ``band`` around it from ``replicas`` perturbed
    runs.

    The runs are sequential, so that at most one copy of the model exists. Raises UsageError with
    one line for exceptions of the user's model.
    """

    def __init__(self, subject: Subject, replicas: int, progress: Progress) -> None:
        self._subject, self._progress = subject, progress
        self._formats = WorkingFormats()  # of the tested model
        counting_tap = _CountingTap()  # counts the quantities of a step
        self._run(
            "on the CPU",
            subject.at_most(1),
            lambda modules, single_step: ModelRun(
                single_step, counting_tap, FormatRecorder(self._formats, modules)
            ),
        )
        samples = TensorSampler(subject.passes + 1)
        samples.expect(counting_tap.count)
        self.trace = ReferenceTrace(samples)
        self._run(
            "in float64",
            subject,
            lambda modules, task: self._float64_run(task, self.trace, modules),
            "float64",
        )
        self.band = rounding_envelope.RoundingEnvelope(
            self.trace, [self._replica(number) for number in range(replicas)]
        )

    @functools.cached_property
    def far_band(self) -> rounding_envelope.RoundingEnvelope:
        """The band with additional replicas of larger perturbation; computed once on demand."""
        return self.band.with_far(
            [
                self._replica(number, rounding_envelope.FAR_SCALE)
                for number in range(rounding_envelope.FAR_REPLICAS)
            ]
        )

    def _replica(self, number: int, times: float = 1.0) -> Distances:
        distances = Distances(self.trace)
        perturbation = ReplicaPerturbation(number, times)
        self._run(
            "in float64, with every number moved by half an ulp", self._subject,
            lambda modules, task: self._float64_run(task, distances, modules, perturbation),
            f"float64 moved by {times / 2:g} ulp, number {number + 1}",
            lambda tensor: perturbation.apply(tensor, _SINGLE),
        )  # fmt: skip
        return distances

    def _float64_run(
        self,
        subject: Subject,
        tap: Tap,
        modules: Modules,
        perturbation: ReplicaPerturbation | None = None,
    ) -> ModelRun:
        return ModelRun(
            subject, tap, Float64Mode(self._formats, modules, perturbation), dtype=torch.float64
        )

    def _run(
        self, where: str, subject: Subject, make_run: Callable[[Modules, Subject], ModelRun],
        label: str = "",
        on_inputs_moved: Callable[[torch.Tensor], None] | None = None,
    ) -> None:  # fmt: skip
        """Run all steps. ``label`` names the run in progress reports, ``on_inputs_moved`` may
        change inputs in place."""
        with (
            quietly() as modules,
            users_own(f"{where} the model"),
            contextlib.closing(make_run(modules, subject)) as model_run,
        ):
            for step in model_run.run(on_inputs_moved):
                if label:
                    self._progress(label, step, subject.passes)


class _CountingTap:
    """A tap that only counts."""

    count = 0

    def __call__(self, key: Key, tensor: torch.Tensor) -> None:
        self.count += 1
