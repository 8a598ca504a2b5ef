"""Comparison of two variants of one computation (in place or not, with or without gradients,
deterministic or not) on every backend.

Results are compared layer by layer in units of the band, the effect of rounding on the first
variant. A backend that loses writes to views, or whose inference mode uses a wrong kernel, thus
differs from itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..backends.base import Backend
from ..core.text import format_factor
from . import entry_points, rounding_envelope
from .backend_comparison import unsuitable
from .model_reference import ModelReference
from .preflight import Mistake, check_pair
from .reference_samples import Distances, Key, ReferenceTrace, Tap, TensorSampler
from .run_pass import PassRequest, run_pass
from .training_task import Subject


@dataclass(frozen=True)
class Variant:
    """A variant of a computation: its name, a subject, and a context that is active while it
    runs, such as ``torch.inference_mode``."""

    name: str
    subject: Subject
    context: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext


@dataclass(frozen=True, slots=True)
class VariantComparison:
    """A variant compared with the first one on a backend. ``same``: bitwise equal. ``times``: the
    largest difference as a multiple of the band. ``where``: its location, or, if the band is left,
    where it is left first.

    ``mistakes`` concern the comparison itself, ``raised`` is an exception.
    """

    first: str
    other: str
    backend: str
    same: bool = False
    times: float = 0.0
    where: str = ""
    compared: int = 0
    raised: str = ""
    mistakes: tuple[Mistake, ...] = ()

    @property
    def fails(self) -> bool:
        return bool(self.raised) or self.times > 1.0

    def __str__(self) -> str:
        if self.raised:
            return (
                f"✗ {self.backend}: {self.other} raises where {self.first} does not: {self.raised}"
            )
        pair = f"{self.other} beside {self.first}"
        if self.same:
            return f"✓ {self.backend}: {pair}: the same bits in all {self.compared:,} quantities"
        size = format_factor(self.times)
        if self.fails:
            return f"✗ {self.backend}: {pair}: up to {size} × the band apart, first at {self.where}"
        return f"✓ {self.backend}: {pair}: at most {size} × the band apart ({self.where})"


def compare_variants(
    first: Subject | Variant, others: Iterable[Subject | Variant],
    backends: Iterable[str | Backend] | None = None, *,
    steps: int | None = None, replicas: int = rounding_envelope.REPLICAS,
) -> tuple[VariantComparison, ...]:  # fmt: skip
    """Compare each of ``others`` with ``first`` on every backend. Raises UsageError or
    ConfigurationError with one clear line."""
    base, variants = _as_variant(first, steps), [_as_variant(other, steps) for other in others]
    present = [backend for backend in entry_points.chosen_from(backends) if not unsuitable(backend)]
    if not present or not variants:
        return ()
    with base.context():
        reference = ModelReference(base.subject, replicas, lambda what, done, total: None)
    return tuple(
        comparison
        for backend in present
        for comparison in _compare_on(backend, base, variants, reference)
    )


def _as_variant(source: Subject | Variant, steps: int | None) -> Variant:
    variant = source if isinstance(source, Variant) else Variant(source.name, source)
    subject = variant.subject.settled()
    return replace(variant, subject=subject if steps is None else replace(subject, steps=steps))


def _compare_on(
    backend: Backend, base: Variant, others: Sequence[Variant], reference: ModelReference
) -> list[VariantComparison]:
    trace = ReferenceTrace(TensorSampler(base.subject.passes + 1))
    if _run(backend, base, trace):
        # the comparison with float64 has reported that the first variant raises here
        return []
    return [_compare(backend, base, other, trace, reference) for other in others]


def _compare(
    backend: Backend,
    base: Variant,
    other: Variant,
    trace: ReferenceTrace,
    reference: ModelReference,
) -> VariantComparison:
    mistakes, distances = check_pair(base.subject.model, other.subject.model), Distances(trace)
    raised = _run(backend, other, distances)
    if raised:
        return VariantComparison(
            base.name, other.name, backend.name, raised=raised, mistakes=mistakes
        )
    comparable = {
        key: value for key, value in distances.by_key.items() if key in reference.trace.by_key
    }
    ratios = {
        key: rounding_envelope.ratio_to_band(value, reference.band.of(key))
        for key, value in comparable.items()
    }
    worst = max(ratios, key=lambda key: ratios[key], default=None)
    first = next((key for key, value in ratios.items() if value > 1.0), worst)
    same = bool(distances.by_key) and not any(distances.by_key.values()) and not distances.missing
    largest = ratios[worst] if worst is not None else 0.0
    return VariantComparison(
        base.name,
        other.name,
        backend.name,
        same,
        largest,
        _location(first),
        len(distances.by_key),
        mistakes=mistakes,
    )


def _run(backend: Backend, variant: Variant, tap: Tap) -> str:
    """Run all steps of a variant on a backend; returns the message of what was raised there."""
    with variant.context():
        return run_pass(
            variant.subject,
            backend,
            PassRequest(variant.subject.steps, local=False),
            tap,
            None,
            lambda step: None,
        ).raised


def _location(key: Key | None) -> str:
    if key is None:
        return ""
    return (
        f"the {key.kind} of {key.name or 'the whole model'}, step {key.step}"
        if key.kind != "loss"
        else f"the loss, step {key.step}"
    )


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """``torch.use_deterministic_algorithms(True)`` for a while."""
    was_enabled, was_warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_enabled, warn_only=was_warn_only)


def variants_of(target: Any) -> tuple[Variant, ...]:
    """The other variants of a built-in example; none for any other target."""
    from .examples import EXAMPLES, PREFIX

    name = (
        target.removeprefix(PREFIX) if isinstance(target, str) and target.startswith(PREFIX) else ""
    )
    if name not in EXAMPLES:
        return ()
    return tuple(
        other if isinstance(other, Variant) else Variant(other.name, other)
        for other in EXAMPLES[name].others()
    )
