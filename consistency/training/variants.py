"""Two ways to compute the same (in place or not, with gradients or without, deterministic or not),
side by side on every backend.

What one way gives is laid beside what the other gives, layer by layer, in units of the band: what
rounding alone would do to the first. So a backend that loses writes to views, or whose inference
mode takes a wrong kernel, differs from itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..backends.base import Backend
from . import comparing, rounding_envelope
from .backend_comparison import unsuitable
from .preflight import Mistake, check_pair
from .reference import Reference
from .run_pass import Order, take
from .traces import Distances, Key, Samples, Tap, Trace
from .training_task import Subject


@dataclass(frozen=True)
class Way:
    """Another way: its name, a subject, and what is set while it runs, such as
    ``torch.inference_mode``."""

    name: str
    subject: Subject
    context: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext


@dataclass(frozen=True, slots=True)
class Beside:
    """A way beside the first one, on a backend. ``same``: to the bit. ``times``: the largest
    difference × the band. ``where`` it is, or, where the band is left, what leaves it first.

    ``mistakes`` are of the comparison itself, ``raised`` is what went wrong.
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
        size = f"{self.times:,.0f}" if self.times >= 10 else f"{self.times:.2g}"
        if self.fails:
            return f"✗ {self.backend}: {pair}: up to {size} × the band apart, first at {self.where}"
        return f"✓ {self.backend}: {pair}: at most {size} × the band apart ({self.where})"


def compare_ways(
    first: Subject | Way, others: Iterable[Subject | Way],
    backends: Iterable[str | Backend] | None = None, *,
    steps: int | None = None, replicas: int = rounding_envelope.REPLICAS,
) -> tuple[Beside, ...]:  # fmt: skip
    """Each of ``others`` beside ``first``, on every backend. Raises UsageError or
    ConfigurationError with one clear line."""
    one, more = _way(first, steps), [_way(other, steps) for other in others]
    present = [backend for backend in comparing.chosen_from(backends) if not unsuitable(backend)]
    if not present or not more:
        return ()
    with one.context():
        reference = Reference(one.subject, replicas, lambda what, done, total: None)
    return tuple(beside for backend in present for beside in _on(backend, one, more, reference))


def _way(given: Subject | Way, steps: int | None) -> Way:
    way = given if isinstance(given, Way) else Way(given.name, given)
    subject = way.subject.settled()
    return replace(way, subject=subject if steps is None else replace(subject, steps=steps))


def _on(backend: Backend, one: Way, others: Sequence[Way], reference: Reference) -> list[Beside]:
    trace = Trace(Samples(one.subject.passes + 1))
    if _run(backend, one, trace):
        # of a backend on which the first way raises, the comparison with float64 has told
        return []
    return [_beside(backend, one, other, trace, reference) for other in others]


def _beside(backend: Backend, one: Way, other: Way, trace: Trace, reference: Reference) -> Beside:
    mistakes, distances = check_pair(one.subject.model, other.subject.model), Distances(trace)
    raised = _run(backend, other, distances)
    if raised:
        return Beside(one.name, other.name, backend.name, raised=raised, mistakes=mistakes)
    found = {key: value for key, value in distances.found.items() if key in reference.trace.found}
    times = {
        key: rounding_envelope.in_bands(value, reference.band.of(key))
        for key, value in found.items()
    }
    worst = max(times, key=lambda key: times[key], default=None)
    first = next((key for key, value in times.items() if value > 1.0), worst)
    same = bool(distances.found) and not any(distances.found.values()) and not distances.missing
    largest = times[worst] if worst is not None else 0.0
    return Beside(
        one.name,
        other.name,
        backend.name,
        same,
        largest,
        _place(first),
        len(distances.found),
        mistakes=mistakes,
    )


def _run(backend: Backend, way: Way, tap: Tap) -> str:
    """Take a way through its steps on a backend; returns what was raised there."""
    with way.context():
        return take(
            way.subject,
            backend,
            Order(way.subject.steps, local=False),
            tap,
            None,
            lambda step: None,
        ).raised


def _place(key: Key | None) -> str:
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
    before, warns = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warns)


def ways_of(target: Any) -> tuple[Way, ...]:
    """The other ways that a built-in example has; none of any other target."""
    from .examples import EXAMPLES, PREFIX

    name = (
        target.removeprefix(PREFIX) if isinstance(target, str) and target.startswith(PREFIX) else ""
    )
    if name not in EXAMPLES:
        return ()
    return tuple(
        other if isinstance(other, Way) else Way(other.name, other)
        for other in EXAMPLES[name].others()
    )
