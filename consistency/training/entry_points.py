"""``compare_models`` and ``assert_models_match``: validation of the request, and the comparison."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import backends as _backends
from ..backends.base import Backend
from ..backends.subprocess.requests import CASE_SECONDS
from ..errors import UsageError
from ..judge import tolerances as _tolerances
from ..judge.tolerances import Tolerances
from . import model_targets, rounding_envelope
from . import preflight as _mistakes
from .backend_comparison import ModelComparison
from .findings import WITHIN, FailedCall, ModelReport
from .model_reference import Progress
from .training_task import subject_of


def compare_models(
    target: Any,
    backends: Iterable[str | Backend] | None = None,
    *,
    steps: int | None = None,
    optimizer: Any = None,
    replicas: int = rounding_envelope.REPLICAS,
    local: bool = True,
    mistakes: bool = True,
    tolerances: str | Path | Tolerances | None = None,
    case_timeout: float = CASE_SECONDS,
    progress: Progress | None = None,
) -> ModelReport:
    """Train a model on every backend and in float64; report whether differences are rounding and,
    if not, which operator is wrong first.

    ``target``: a factory, ``"module:factory"``, ``"file.py:factory"``, ``"examples:NAME"``, a
    :class:`Subject`, ``(model, inputs)`` or ``(model, inputs, loss)``. ``backends``: specs or
    Backend objects; None for every available one. ``steps`` and ``optimizer`` (a function of the
    parameters) replace those of the subject; 0 steps are one forward and backward pass.
    ``replicas``: the number of float64 runs with every number perturbed by half an ulp. ``local``:
    judge each operator on its actual inputs. ``mistakes``: first look for mistakes of the
    comparison itself. ``case_timeout``: seconds per call for a backend in a separate process.
    ``progress(what, done, total)`` is called for every step.

    Raises UsageError or ConfigurationError with one clear line.
    """
    subject = model_targets.subject(target)
    preflight_mistakes = (
        _mistakes.check(subject, model_targets.factory_of(target)) if mistakes else ()
    )
    subject = subject.settled()
    if steps is not None:
        subject = replace(subject, steps=steps)
    if optimizer is not None:
        subject = replace(subject, optimizer=optimizer)
    subject = subject_of(subject, "what is asked for")
    if type(replicas) is not int or replicas < 2:
        raise UsageError(f"replicas = {replicas!r:.40}; a band needs 2 at least")
    if not case_timeout > 0.0:
        raise UsageError(f"case_timeout = {case_timeout!r:.40}; give seconds, such as 30")
    # Another process can make the same model only by name.
    name = target if isinstance(target, str) and optimizer is None else ""
    chosen = chosen_from(backends)
    if name:
        chosen = [_backends.isolated(backend, backend.name) for backend in chosen]
    rules = _tolerances.load(tolerances)
    try:
        with ModelComparison(
            subject, replicas, rules, local, progress or (lambda *args: None), case_timeout
        ) as comparison:
            report = comparison.report(chosen, name)
    except UsageError as error:
        likely_mistake = next(
            (mistake for mistake in preflight_mistakes if mistake.name in _mistakes.RAISING), None
        )
        if likely_mistake is None:
            raise
        raise UsageError(f"{error} (perhaps because {likely_mistake})") from error
    return replace(report, mistakes=preflight_mistakes)


def chosen_from(backends: Iterable[str | Backend] | None) -> list[Backend]:
    """The requested backends; for None all available ones. Raises UsageError."""
    if backends is None:
        return [b for b in _backends.default_backends() if b.name != "numpy"]
    resolved = _backends.resolve_all(backends)
    if not resolved:
        raise UsageError(
            "no backend is named; leave `backends` out for every one that is available here"
        )
    return resolved


def assert_models_match(
    target: Any, backends: Iterable[str | Backend] | None = None, **options: Any
) -> ModelReport:
    """Raise an AssertionError (:class:`consistency.Divergence`) unless a model stays within the
    band on every backend.

    Takes the arguments of :func:`compare_models` and returns its report. A backend requested by
    name that cannot be used is a failure, too; so is a model that could not be tested at all.
    """
    __tracebackhide__ = True
    from ..errors import Divergence

    report = compare_models(target, backends, **options)
    failed_calls: list[FailedCall] = [f for b in report.tested for f in b.failures]
    absent = [b for b in report.backends.values() if b.absent] if backends is not None else []
    if report.failures or absent or not report.tested:
        raise Divergence(str(report), tuple(f.result for f in failed_calls))
    return report


__all__ = ["WITHIN", "assert_models_match", "compare_models"]
