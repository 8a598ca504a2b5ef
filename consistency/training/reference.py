"""float64 and what rounding alone makes of it: the reference of a subject, and its replicas with
every number moved."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

import torch

from ..reference.perturbation import ReplicaPerturbation
from . import rounding_envelope
from .float64_mode import Formats, Noting, Wide
from .runs import World, quietly
from .trace.modules import Modules
from .traces import Distances, Key, Samples, Tap, Trace
from .training_task import Subject, users_own

Progress = Callable[[str, int, int], None]
_SINGLE = 24  # bits of an input's significand


class Reference:
    """The ``trace`` of a subject in float64, and the ``band`` around it, which ``replicas`` worlds
    span.

    The worlds come one after the other, so that at most one copy is there beside the model. Raises
    UsageError with one line for what the user's own model raises.
    """

    def __init__(self, subject: Subject, replicas: int, progress: Progress) -> None:
        self._subject, self._progress = subject, progress
        self._formats = Formats()  # those that the tested model works in
        tapped = _Counting()  # how much a step has to be kept of
        self._run(
            "on the CPU",
            subject.at_most(1),
            lambda modules, once: World(once, tapped, Noting(self._formats, modules)),
        )
        samples = Samples(subject.passes + 1)
        samples.expect(tapped.count)
        self.trace = Trace(samples)
        self._run(
            "in float64",
            subject,
            lambda modules, one: self._wide(one, self.trace, modules),
            "float64",
        )
        self.band = rounding_envelope.Bands(
            self.trace, [self._replica(number) for number in range(replicas)]
        )

    @functools.cached_property
    def wider_band(self) -> rounding_envelope.Bands:
        """The same with replicas that are moved farther; made once, and only where it is asked
        for."""
        return self.band.with_far(
            [
                self._replica(number, rounding_envelope.FARTHER)
                for number in range(rounding_envelope.FAR)
            ]
        )

    def _replica(self, number: int, times: float = 1.0) -> Distances:
        found = Distances(self.trace)
        perturbation = ReplicaPerturbation(number, times)
        self._run(
            "in float64, with every number moved by half an ulp", self._subject,
            lambda modules, one: self._wide(one, found, modules, perturbation),
            f"float64 moved by {times / 2:g} ulp, number {number + 1}",
            lambda tensor: perturbation.apply(tensor, _SINGLE),
        )  # fmt: skip
        return found

    def _wide(
        self,
        subject: Subject,
        tap: Tap,
        modules: Modules,
        perturbation: ReplicaPerturbation | None = None,
    ) -> World:
        return World(subject, tap, Wide(self._formats, modules, perturbation), dtype=torch.float64)

    def _run(
        self, where: str, subject: Subject, made: Callable[[Modules, Subject], World],
        said: str = "",
        moved: Callable[[torch.Tensor], None] | None = None,
    ) -> None:  # fmt: skip
        """Take a world through all of its steps. ``said`` is told to who waits, ``moved`` may
        change inputs in place."""
        with (
            quietly() as modules,
            users_own(f"{where} the model"),
            contextlib.closing(made(modules, subject)) as world,
        ):
            for step in world.run(moved):
                if said:
                    self._progress(said, step, subject.passes)


class _Counting:
    """A tap that only counts."""

    count = 0

    def __call__(self, key: Key, tensor: torch.Tensor) -> None:
        self.count += 1
