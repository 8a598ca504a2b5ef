"""``compare_models``: the worlds one after the other, each with a copy of the model, and what follows from their distances."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from .. import backends as _backends
from .. import tolerances as _tolerances
from ..backends import _specs
from ..backends.base import Backend, availability
from ..errors import UsageError
from ..judge import times as _times
from ..tolerances import Tolerances
from ..workers.isolated import Isolated
from ..workers.requests import CASE_SECONDS
from . import bands, targets
from . import mistakes as _mistakes
from .apart import Apart
from .findings import WITHIN, BackendReport, Curve, ModelReport, Named
from .judging import Judging
from .passes import Order, take
from .reference import Progress, Reference
from .subject import Subject, parameters_of
from .traces import Distances, Key, Trace

SINGLE = "computes single operators; a model needs torch and its gradients"
CURVES = {"loss": "loss", "parameter": "parameters"}


def compare_models(
    target: Any,
    backends: Iterable[str | Backend] | None = None,
    *,
    steps: int | None = None,
    optimizer: Any = None,
    replicas: int = bands.REPLICAS,
    local: bool = True,
    mistakes: bool = True,
    tolerances: str | Path | Tolerances | None = None,
    case_timeout: float = CASE_SECONDS,
    progress: Progress | None = None,
) -> ModelReport:
    """Train a model on every backend beside float64, and say whether what differs is rounding; if not, which operator is the first.

    ``target``: a factory, ``"module:factory"``, ``"file.py:factory"``, ``"examples:NAME"``, a :class:`Subject`, ``(model, inputs)``
    or ``(model, inputs, loss)``. ``backends``: specs or Backend objects; None for every one that is available here. ``steps`` and
    ``optimizer`` (a function of the parameters) replace those of the subject; 0 steps are one pass forward and backward.
    ``replicas``: how many times float64 is repeated with every number moved by half an ulp. ``local``: judge each operator on the
    inputs that it really got. ``mistakes``: look for what is wrong with the comparison itself, before a backend is blamed.
    ``case_timeout``: seconds that one call may take where a backend has a process of its own. ``progress(what, done, total)`` is
    told of every step.

    Raises UsageError or ConfigurationError with one clear line.
    """
    subject = targets.subject(target)
    found = _mistakes.check(subject, targets.factory_of(target)) if mistakes else ()
    subject = subject.settled()
    if steps is not None:
        subject = replace(subject, steps=steps)
    if optimizer is not None:
        subject = replace(subject, optimizer=optimizer)
    if type(subject.steps) is not int or subject.steps < 0:
        raise UsageError(f"steps = {subject.steps!r:.40}; give a whole number, 0 for one pass forward and backward")
    if type(replicas) is not int or replicas < 2:
        raise UsageError(f"replicas = {replicas!r:.40}; a band needs 2 at least")
    if not case_timeout > 0.0:
        raise UsageError(f"case_timeout = {case_timeout!r:.40}; give seconds, such as 30")
    name = target if isinstance(target, str) and optimizer is None else ""  # by which another process can make the same
    chosen = chosen_from(backends)
    if name:
        chosen = [_backends.isolated(backend, backend.name) for backend in chosen]
    rules = tolerances if isinstance(tolerances, Tolerances) else _tolerances.load(tolerances)
    try:
        with _Comparison(subject, replicas, rules, local, progress or (lambda *told: None), case_timeout) as comparison:
            report = comparison.report(chosen, name)
    except UsageError as error:
        if not found:
            raise
        raise UsageError(f"{error} (perhaps because {found[0]})") from error
    return replace(report, mistakes=found)


def chosen_from(backends: Iterable[str | Backend] | None) -> list[Backend]:
    """The backends that were asked for; for None all that are here. Raises UsageError."""
    if backends is None:
        return [b for b in _backends.default_backends() if b.name != "numpy"]
    found = _backends.resolve_all(backends)
    if not found:
        raise UsageError("no backend is named; leave `backends` out for every one that is available here")
    return found


def unsuitable(backend: Backend) -> str:
    """Why a whole model cannot run on a backend; empty where it can."""
    if isinstance(backend, Isolated):
        return (
            "has a process of its own, in which a model is made once more: give the target as 'module:factory' or "
            "'file.py:factory', with its optimizer, or name the backend without +isolated, @PYTHON, +env:"
        )
    if backend.name == "numpy":
        return SINGLE
    return availability(backend) or ""


@dataclass
class _Comparison:
    """One model on some backends, one after the other, beside one reference."""

    subject: Subject
    replicas: int
    rules: Tolerances
    local: bool
    progress: Progress
    seconds: float  # for one call in a process of its own
    apart: dict[str, Apart] = field(default_factory=dict)  # processes of their own

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for one in self.apart.values():
            one.close()

    def report(self, backends: list[Backend], target: str) -> ModelReport:
        """``target`` is its name; empty where it has none."""
        reasons = {backend.name: self._reason(backend, target) for backend in backends}
        found: dict[str, BackendReport] = {}
        notes: tuple[str, ...] = ()
        if not all(reasons.values()):
            reference = Reference(self.subject, self.replicas, self.progress)
            notes = _notes(reference.trace)
            for backend in (b for b in backends if not reasons[b.name]):
                found[backend.name] = self._backend(backend, reference)
                if backend.name in self.apart:
                    self.apart[backend.name].close()
        ordered = {b.name: found.get(b.name) or BackendReport(b.name, absent=reasons[b.name]) for b in backends}
        count = sum(p.numel() for p in parameters_of(self.subject.model))
        return ModelReport(self.subject.name, self.subject.steps, self.replicas, ordered, notes=notes, parameters=count)

    def _reason(self, backend: Backend, target: str) -> str:
        """Why a backend cannot be used; empty where it can."""
        if not isinstance(backend, Isolated) or not target:
            return unsuitable(backend)
        parts = _specs.parse(backend.spec) if not _specs.is_users_file(backend.spec) else None
        if parts is not None and (parts.kind == "numpy" or "compile" in parts.switches):
            return f"{backend.spec} {SINGLE}"
        self.progress(f"a process for {backend.name}", 0, 1)
        self.apart[backend.name] = Apart(backend, target, self.subject, self.seconds)
        return self.apart[backend.name].reason

    def _backend(self, backend: Backend, reference: Reference, every: int = 0) -> BackendReport:
        """``every``: look at every call of this many steps, and take no more."""
        found, began = Distances(reference.trace), time.monotonic()
        order = Order(min(self.subject.steps, every or self.subject.steps), bool(every), self.local)
        name = backend.name if not every else f"{backend.name}, every call"
        apart = self.apart.get(backend.name)
        judging = apart.judging(self.rules) if apart is not None else Judging.of(backend, self.rules)

        def stepped(step: int) -> None:
            self.progress(name, step, self.subject.passes)

        if apart is not None:
            done = apart.take(order, found, judging, stepped)
        else:
            done = take(self.subject, backend, order, found, judging, stepped)
        band = reference.band
        times = band.times(found)
        outside = bands.first_outside(times)
        again: BackendReport | None = None
        remeasured = False
        if outside is not None and not judging.failures and not every and not done.raised and not done.lost:
            if self.local and (outside.step > 1 or done.passed_over):
                again = self._backend(backend, reference, every=outside.step)
            if again is None or again.first is None:
                band = reference.wider_band
                times = band.times(found)
                outside, remeasured = bands.first_outside(times), True
        report = BackendReport(
            backend.name, layer=_layer(outside, times), failures=tuple(judging.failures), first=next(iter(judging.failures), None),
            layers=bands.layers(times), curves=_curves(band, found), calls=done.calls, looked_at=done.looked_at,
            judged=sum(judging.judged.values()), left_out=done.left_out, raised=done.raised, lost=done.lost,
            remeasured=remeasured, seconds=time.monotonic() - began,
        )  # fmt: skip
        if again is not None:
            report = replace(
                report, first=again.first, failures=again.failures, looked_at=report.looked_at + again.looked_at, lost=again.lost
            )  # fmt: skip
        return _with_verdict(report, outside)


def _notes(reference: Trace) -> tuple[str, ...]:
    """What makes a comparison tell less than it seems to."""
    if not any(key.kind == "loss" for key in reference.found):
        return ("nothing that the model returns is a floating tensor: no loss and no gradients are compared",)
    lost = next((key for key, values in reference.found.items() if key.kind == "loss" and not np.isfinite(values).all()), None)
    if lost is None:
        return ()
    return (f"float64 itself has no finite loss from step {lost.step} on: what is computed from it tells nothing",)


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
        text = f"leaves it at step {outside.step}, first at {report.layer}; no operator by itself leaves its budget"
        return replace(report, verdict=text, step=outside.step)
    if outside is None:
        text = f"stays within it, but {first} leaves its budget at step {first.step}"
        return replace(report, verdict=text, step=first.step)
    step = min(first.step, outside.step)
    return replace(report, verdict=f"leaves it at step {step}, first at {first}", step=step)


def _layer(outside: Key | None, times: dict[Key, float]) -> str:
    if outside is None:
        return ""
    name = outside.name or "the whole model"
    return f"the {outside.kind} of {name} ({_times(times[outside])} × the band)" if outside.kind != "loss" else "the loss"


def _curves(band: bands.Bands, found: Distances) -> tuple[Curve, ...]:
    curves = [band.curve(title, kind, found) for kind, title in CURVES.items()]
    return tuple(curve for curve in curves if curve is not None)


def assert_models_match(target: Any, backends: Iterable[str | Backend] | None = None, **options: Any) -> ModelReport:
    """Raise an AssertionError (:class:`consistency.Divergence`) unless a model stays within the band on every backend.

    Takes what :func:`compare_models` takes and returns its report. A backend that cannot be used is a failure, too, where it was
    asked for by name; so is a model that could not be tested at all.
    """
    from ..errors import Divergence

    report = compare_models(target, backends, **options)
    named: list[Named] = [f for b in report.tested for f in b.failures]
    absent = [b for b in report.backends.values() if b.absent] if backends is not None else []
    if report.failures or absent or not report.tested:
        raise Divergence(str(report), tuple(f.result for f in named))
    return report


__all__ = ["WITHIN", "assert_models_match", "compare_models"]
