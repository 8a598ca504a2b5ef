"""Compare every backend, one after the other, with one float64 reference: run the model there and
derive a verdict from the distances."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from ..backends import _specs
from ..backends.base import Backend, availability
from ..backends.subprocess.backend import SubprocessBackend
from ..core.text import format_factor
from ..judge.tolerances import Tolerances
from . import rounding_envelope
from .findings import BackendReport, Curve, ModelReport
from .forward_probe import modules, place
from .model_reference import ModelReference, Progress
from .reference_samples import Distances, Key, ReferenceTrace
from .rule_judge import RuleJudge
from .run_pass import PassRequest, run_pass
from .subprocess_run import SubprocessRun
from .training_task import Subject, parameters_of

SINGLE = "computes single operators; a model needs torch and its gradients"
CURVES = {"loss": "loss", "parameter": "parameters"}


def unsuitable(backend: Backend) -> str:
    """Why a whole model cannot run on a backend; empty where it can."""
    if isinstance(backend, SubprocessBackend):
        return (
            "has a process of its own, in which a model is made once more: give the target as "
            "'module:factory' or "
            "'file.py:factory', with its optimizer, or name the backend without +isolated, "
            "@PYTHON, +env:"
        )
    if backend.name == "numpy":
        return SINGLE
    return availability(backend) or ""


@dataclass
class ModelComparison:
    """One model on several backends, one after the other, compared with one reference."""

    subject: Subject
    replicas: int
    rules: Tolerances
    local: bool
    progress: Progress
    seconds: float  # for one call in a process of its own
    subprocess_runs: dict[str, SubprocessRun] = field(
        default_factory=dict
    )  # processes of their own

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for one in self.subprocess_runs.values():
            one.close()

    def report(self, backends: list[Backend], target: str) -> ModelReport:
        """``target`` is its name; empty where it has none."""
        reasons = {backend.name: self._reason(backend, target) for backend in backends}
        found: dict[str, BackendReport] = {}
        notes: tuple[str, ...] = ()
        if not all(reasons.values()):
            reference = ModelReference(self.subject, self.replicas, self.progress)
            notes = _notes(reference.trace)
            for backend in (b for b in backends if not reasons[b.name]):
                found[backend.name] = self._backend(backend, reference)
                if backend.name in self.subprocess_runs:
                    self.subprocess_runs[backend.name].close()
        ordered = {
            b.name: found.get(b.name) or BackendReport(b.name, absent=reasons[b.name])
            for b in backends
        }
        count = sum(p.numel() for p in parameters_of(self.subject.model))
        return ModelReport(
            self.subject.name,
            self.subject.steps,
            self.replicas,
            ordered,
            notes=notes,
            parameters=count,
        )

    def _reason(self, backend: Backend, target: str) -> str:
        """Why a backend cannot be used; empty where it can."""
        if not isinstance(backend, SubprocessBackend) or not target:
            return unsuitable(backend)
        parts = _specs.parse(backend.spec) if not _specs.is_users_file(backend.spec) else None
        if parts is not None and (parts.kind == "numpy" or "compile" in parts.switches):
            return f"{backend.spec} {SINGLE}"
        self.progress(f"a process for {backend.name}", 0, 1)
        self.subprocess_runs[backend.name] = SubprocessRun(
            backend, target, self.subject, self.seconds
        )
        return self.subprocess_runs[backend.name].reason

    def _backend(
        self, backend: Backend, reference: ModelReference, every: int = 0
    ) -> BackendReport:
        """``every``: look at every call of this many steps, and take no more."""
        found, began = Distances(reference.trace), time.monotonic()
        request = PassRequest(
            min(self.subject.steps, every or self.subject.steps), bool(every), self.local
        )
        name = backend.name if not every else f"{backend.name}, every call"
        remote = self.subprocess_runs.get(backend.name)
        rule_judge = (
            remote.judge(self.rules) if remote is not None else RuleJudge.of(backend, self.rules)
        )

        def stepped(step: int) -> None:
            self.progress(name, step, self.subject.passes)

        if remote is not None:
            done = remote.run_pass(request, found, rule_judge, stepped)
        else:
            done = run_pass(self.subject, backend, request, found, rule_judge, stepped)
        band = reference.band
        ratios = band.ratios(found)
        outside = rounding_envelope.first_outside(ratios)
        again: BackendReport | None = None
        remeasured = False
        if (
            outside is not None
            and not rule_judge.failures
            and not every
            and not done.raised
            and not done.lost
        ):
            if self.local:
                again = self._backend(backend, reference, every=outside.step)
            if again is None or again.first is None:
                band = reference.far_band
                ratios = band.ratios(found)
                outside, remeasured = rounding_envelope.first_outside(ratios), True
        report = BackendReport(
            backend.name, layer=self._layer(outside, ratios), failures=tuple(rule_judge.failures),
            first=next(iter(rule_judge.failures), None), layers=rounding_envelope.layers(ratios),
            curves=_curves(band, found),
            calls=done.calls, looked_at=done.looked_at,
            judged=sum(rule_judge.judged.values()), left_out=done.left_out, raised=done.raised,
            lost=done.lost,
            remeasured=remeasured, seconds=time.monotonic() - began,
        )  # fmt: skip
        if again is not None:
            report = replace(
                report, first=again.first, failures=again.failures,
                looked_at=report.looked_at + again.looked_at, lost=again.lost
            )  # fmt: skip
        return _with_verdict(report, outside)

    def _layer(self, outside: Key | None, ratios: dict[Key, float]) -> str:
        if outside is None or outside.kind == "loss":
            return "the loss" if outside is not None else ""
        name, which = outside.name or "the whole model", ""
        if outside.kind in ("output", "gradient"):
            name, space, which = outside.name.partition(
                " "
            )  # which of its outputs, or which time it was called
            module = dict(modules(self.subject.model)).get(name)
            name, which = (
                place(name, module) if module is not None else name or "the whole model",
                space + which,
            )
        return f"the {outside.kind} of {name}{which} ({format_factor(ratios[outside])} × the band)"


def _notes(reference: ReferenceTrace) -> tuple[str, ...]:
    """What makes a comparison tell less than it seems to."""
    if not any(key.kind == "loss" for key in reference.by_key):
        return (
            (
                "nothing that the model returns is a floating tensor: no loss and no gradients are "
                "compared"
            ),
        )
    lost = next(
        (
            key
            for key, values in reference.by_key.items()
            if key.kind == "loss" and not np.isfinite(values).all()
        ),
        None,
    )
    if lost is None:
        return ()
    return (
        (
            f"float64 itself has no finite loss from step {lost.step} on: what is computed from it "
            f"tells nothing"
        ),
    )


def _with_verdict(report: BackendReport, outside: Key | None) -> BackendReport:
    first = report.first
    if report.lost:
        return replace(report, verdict=report.lost, step=0)
    if report.raised:
        return replace(report, verdict=f"raises where float64 does not: {report.raised}", step=0)
    if first is None and outside is None:
        return report
    if first is None:
        assert outside is not None
        text = (
            f"leaves it at step {outside.step}, first at {report.layer}; no operator by "
            f"itself leaves its budget"
        )
        return replace(report, verdict=text, step=outside.step)
    if outside is None:
        text = f"stays within it, but {first} leaves its budget at step {first.step}"
        return replace(report, verdict=text, step=first.step)
    step = min(first.step, outside.step)
    return replace(report, verdict=f"leaves it at step {step}, first at {first}", step=step)


def _curves(band: rounding_envelope.RoundingEnvelope, found: Distances) -> tuple[Curve, ...]:
    curves = [band.curve(title, kind, found) for kind, title in CURVES.items()]
    return tuple(curve for curve in curves if curve is not None)
