"""``compare_models`` and ``assert_models_match``: what is asked for, and what is wrong with the
question."""

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
    """Train a model on every backend beside float64, and say whether what differs is rounding; if
    not, which operator is the first.

    ``target``: a factory, ``"module:factory"``, ``"file.py:factory"``, ``"examples:NAME"``, a
    :class:`Subject`, ``(model, inputs)`` or ``(model, inputs, loss)``. ``backends``: specs or
    Backend objects; None for every one that is available here. ``steps`` and ``optimizer`` (a
    function of the parameters) replace those of the subject; 0 steps are one pass forward and
    backward. ``replicas``: how many times float64 is repeated with every number moved by half an
    ulp. ``local``: judge each operator on the inputs that it really got. ``mistakes``: look for
    what is wrong with the comparison itself, before a backend is blamed. ``case_timeout``: seconds
    that one call may take where a backend has a process of its own. ``progress(what, done, total)``
    is told of every step.

    Raises UsageError or ConfigurationError with one clear line.
    """
    subject = model_targets.subject(target)
    found = _mistakes.check(subject, model_targets.factory_of(target)) if mistakes else ()
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
    name = (
        target if isinstance(target, str) and optimizer is None else ""
    )  # by which another process can make the same
    chosen = chosen_from(backends)
    if name:
        chosen = [_backends.isolated(backend, backend.name) for backend in chosen]
    rules = tolerances if isinstance(tolerances, Tolerances) else _tolerances.load(tolerances)
    try:
        with ModelComparison(
            subject, replicas, rules, local, progress or (lambda *told: None), case_timeout
        ) as comparison:
            report = comparison.report(chosen, name)
    except UsageError as error:
        why = next((mistake for mistake in found if mistake.name in _mistakes.RAISING), None)
        if why is None:
            raise
        raise UsageError(f"{error} (perhaps because {why})") from error
    return replace(report, mistakes=found)


def chosen_from(backends: Iterable[str | Backend] | None) -> list[Backend]:
    """The backends that were asked for; for None all that are here. Raises UsageError."""
    if backends is None:
        return [b for b in _backends.default_backends() if b.name != "numpy"]
    found = _backends.resolve_all(backends)
    if not found:
        raise UsageError(
            "no backend is named; leave `backends` out for every one that is available here"
        )
    return found


def assert_models_match(
    target: Any, backends: Iterable[str | Backend] | None = None, **options: Any
) -> ModelReport:
    """Raise an AssertionError (:class:`consistency.Divergence`) unless a model stays within the
    band on every backend.

    Takes what :func:`compare_models` takes and returns its report. A backend that cannot be used is
    a failure, too, where it was asked for by name; so is a model that could not be tested at all.
    """
    from ..errors import Divergence

    report = compare_models(target, backends, **options)
    named: list[FailedCall] = [f for b in report.tested for f in b.failures]
    absent = [b for b in report.backends.values() if b.absent] if backends is not None else []
    if report.failures or absent or not report.tested:
        raise Divergence(str(report), tuple(f.result for f in named))
    return report


__all__ = ["WITHIN", "assert_models_match", "compare_models"]
