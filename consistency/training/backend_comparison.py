"""Comparison of backends, one after the other, with one float64 reference: runs the model and
derives a verdict from the distances."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from ..backends import _specs, runtime_of
from ..backends.base import Backend, availability
from ..backends.subprocess.backend import SubprocessBackend
from ..core.text import format_factor
from ..errors import Unsupported, UsageError
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

if TYPE_CHECKING:
    from ..backends.runtimes.graph_runtime import GraphRuntime

EXPORTED = "the exported model, in evaluation mode, forward only: no gradients and no training"
SINGLE = "computes single operators; a model needs torch and its gradients"
CURVES = {"loss": "loss", "parameter": "parameters"}


def unsuitable(backend: Backend) -> str:
    """Why a backend cannot run a whole model; empty if it can."""
    if isinstance(backend, SubprocessBackend):
        return (
            "has a process of its own, in which a model is made once more: give the target as "
            "'module:factory' or 'file.py:factory', with its optimizer, or name the backend "
            "without +isolated, @PYTHON, +env:"
        )
    if backend.name == "numpy":
        return SINGLE
    return availability(backend) or ""


@dataclass
class ModelComparison:
    """One model on several backends, compared in sequence with one reference."""

    subject: Subject
    replicas: int
    rules: Tolerances
    local: bool
    progress: Progress
    seconds: float  # for one call in a separate process
    subprocess_runs: dict[str, SubprocessRun] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for run in self.subprocess_runs.values():
            run.close()

    def report(self, backends: list[Backend], target: str) -> ModelReport:
        """``target`` is its name; empty if it has none."""
        reasons = {backend.name: self._unavailable_reason(backend, target) for backend in backends}
        reports: dict[str, BackendReport] = {}
        notes: tuple[str, ...] = ()
        runtimes = {b.name: r for b in backends if (r := runtime_of(b)) is not None}
        for name, runtime in runtimes.items():
            reports[name] = self._compare_runtime(runtime)
            reasons[name] = reports[name].absent or EXPORTED
        if not all(reasons.values()):
            reference = ModelReference(self.subject, self.replicas, self.progress)
            notes = _notes(reference.trace)
            for backend in (b for b in backends if not reasons[b.name]):
                reports[backend.name] = self._compare_backend(backend, reference)
                if backend.name in self.subprocess_runs:
                    self.subprocess_runs[backend.name].close()
        if any(not reports[name].absent for name in runtimes):
            notes = (*notes, f"{', '.join(runtimes)}: {EXPORTED}")
        ordered = {
            b.name: reports.get(b.name) or BackendReport(b.name, absent=reasons[b.name])
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

    def _unavailable_reason(self, backend: Backend, target: str) -> str:
        """Why a backend cannot be used; empty if it can."""
        if runtime_of(backend) is not None:
            return ""  # reported by itself
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

    def _compare_runtime(self, runtime: GraphRuntime) -> BackendReport:
        """The model as torch's exporter exports it, on a runtime that only infers."""
        reason = availability(runtime)
        if reason is not None:
            return BackendReport(runtime.name, absent=reason)
        from .exported.model_export import compare_export

        self.progress(f"{runtime.name}: the exported model", 0, 1)
        start_time = time.monotonic()
        try:
            check = compare_export(self.subject, runtime, self.replicas)
        except (UsageError, Unsupported) as error:
            return BackendReport(runtime.name, absent=str(error))
        return BackendReport(
            runtime.name, verdict=check.verdict, step=int(check.fails), layers=check.layers,
            calls=check.calls, looked_at=check.compared, raised=check.raised,
            seconds=time.monotonic() - start_time,
        )  # fmt: skip

    def _compare_backend(
        self, backend: Backend, reference: ModelReference, every: int = 0
    ) -> BackendReport:
        """With ``every``: run only that many steps, and check every call."""
        distances, start_time = Distances(reference.trace), time.monotonic()
        request = PassRequest(
            min(self.subject.steps, every or self.subject.steps), bool(every), self.local
        )
        name = backend.name if not every else f"{backend.name}, every call"
        remote = self.subprocess_runs.get(backend.name)
        rule_judge = (
            remote.judge(self.rules) if remote is not None else RuleJudge.of(backend, self.rules)
        )

        def on_step(step: int) -> None:
            self.progress(name, step, self.subject.passes)

        if remote is not None:
            pass_report = remote.run_pass(request, distances, rule_judge, on_step)
        else:
            pass_report = run_pass(self.subject, backend, request, distances, rule_judge, on_step)
        band = reference.band
        ratios = band.ratios(distances)
        outside = rounding_envelope.first_outside(ratios)
        full_check: BackendReport | None = None
        remeasured = False
        if (
            outside is not None
            and not rule_judge.failures
            and not every
            and not pass_report.raised
            and not pass_report.lost
        ):
            if self.local:
                full_check = self._compare_backend(backend, reference, every=outside.step)
            if full_check is None or full_check.first is None:
                band = reference.far_band
                ratios = band.ratios(distances)
                outside, remeasured = rounding_envelope.first_outside(ratios), True
        report = BackendReport(
            backend.name, layer=self._layer_text(outside, ratios),
            failures=tuple(rule_judge.failures),
            first=next(iter(rule_judge.failures), None), layers=rounding_envelope.layers(ratios),
            curves=_curves(band, distances),
            calls=pass_report.calls, looked_at=pass_report.looked_at,
            judged=sum(rule_judge.judged.values()), left_out=pass_report.left_out,
            raised=pass_report.raised, lost=pass_report.lost,
            remeasured=remeasured, seconds=time.monotonic() - start_time,
        )  # fmt: skip
        if full_check is not None:
            report = replace(
                report, first=full_check.first, failures=full_check.failures,
                looked_at=report.looked_at + full_check.looked_at, lost=full_check.lost
            )  # fmt: skip
        return _with_verdict(report, outside)

    def _layer_text(self, outside: Key | None, ratios: dict[Key, float]) -> str:
        if outside is None or outside.kind == "loss":
            return "the loss" if outside is not None else ""
        name, suffix = outside.name or "the whole model", ""
        if outside.kind in ("output", "gradient"):
            name, space, suffix = outside.name.partition(" ")  # index of the output or call
            module = dict(modules(self.subject.model)).get(name)
            name, suffix = (
                place(name, module) if module is not None else name or "the whole model",
                space + suffix,
            )
        return f"the {outside.kind} of {name}{suffix} ({format_factor(ratios[outside])} × the band)"


def _notes(reference: ReferenceTrace) -> tuple[str, ...]:
    """Notes on what the comparison cannot show."""
    if not any(key.kind == "loss" for key in reference.by_key):
        return (
            (
                "nothing that the model returns is a floating tensor: no loss and no gradients are "
                "compared"
            ),
        )
    bad = next(
        (
            key
            for key, values in reference.by_key.items()
            if key.kind == "loss" and not np.isfinite(values).all()
        ),
        None,
    )
    if bad is None:
        return ()
    return (
        (
            f"float64 itself has no finite loss from step {bad.step} on: what is computed from it "
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


def _curves(band: rounding_envelope.RoundingEnvelope, distances: Distances) -> tuple[Curve, ...]:
    curves = [band.curve(title, kind, distances) for kind, title in CURVES.items()]
    return tuple(curve for curve in curves if curve is not None)
