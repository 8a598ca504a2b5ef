"""All probes in order, and the fingerprint that they make.

What a probe did not establish is kept as inconclusive, with the reason; a probe that fails costs
its own answers only.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...backends.base import Backend
from ...errors import ConsistencyError
from ..summation import order
from . import (
    accumulator,
    contraction,
    determinism,
    division,
    dtype_width,
    edge_cases,
    elementary,
    input_precision,
    subnormals,
)
from .facts import Fact, Fingerprint, unknown
from .gemm_probe import FORMS
from .query import Ask, NotAnswered

DTYPES = ("float32", "float64", "float16", "bfloat16")
# Raised where what came back has no such shape, dtype or structure.
_UNREADABLE = (
    ArithmeticError,
    AssertionError,
    ConsistencyError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
ORDERED = ("float32", "float64", "bfloat16")  # in which the terms of a sum can be counted


@dataclass(frozen=True)
class Probe:
    """``title`` is what a progress bar says; ``about`` is the question that stands for it where it
    fails as a whole."""

    title: str
    about: str
    facts: Callable[[Ask], Iterator[Fact]]


def probes(dtypes: Sequence[str] = DTYPES) -> list[Probe]:
    """Every probe, the most telling ones first."""
    found = [Probe("width of float64 and int64", "width", dtype_width.facts)]
    for dtype in dtypes:
        found += [
            Probe(
                f"{form} {dtype}",
                f"{form}/{dtype}/multiplicand",
                functools.partial(_sums, form, dtype),
            )
            for form in FORMS
        ]
    for dtype in dtypes:
        found += [
            Probe(
                f"subnormals {dtype}",
                f"subnormals/{dtype}",
                functools.partial(_of, subnormals.facts, dtype),
            ),
            Probe(
                f"x·y + z {dtype}",
                f"addcmul/{dtype}/fma",
                functools.partial(_of, contraction.fused, dtype),
            ),
            Probe(
                f"division {dtype}",
                f"division/{dtype}",
                functools.partial(_of, division.facts, dtype),
            ),
        ]
    found += [
        Probe(
            f"order of sums {dtype}", f"order/{dtype}", functools.partial(_of, order.facts, dtype)
        )
        for dtype in ORDERED
    ]
    found += [
        Probe("corner cases", "edges", edge_cases.facts),
        Probe("repetition, batches, layouts", "repeated", determinism.facts),
    ]
    return found + [
        Probe(
            f"functions {dtype}",
            f"functions/{dtype}",
            functools.partial(_of, elementary.facts, dtype),
        )
        for dtype in dtypes
    ]


def _sums(form: str, dtype: str, ask: Ask) -> Iterator[Fact]:
    found = list(input_precision.facts(ask, form, dtype))
    yield from found
    yield from accumulator.facts(ask, form, dtype)
    yield from contraction.products(ask, form, dtype, found[0])


def _of(facts: Callable[[Ask, str], Iterator[Fact]], dtype: str, ask: Ask) -> Iterator[Fact]:
    return facts(ask, dtype)


def take(
    backend: Backend,
    chosen: Sequence[Probe] | None = None,
    step: Callable[[str], None] | None = None,
) -> Fingerprint:
    """Ask a backend everything. ``step`` is told the title of each probe before it begins. Never
    raises for what a backend does."""
    began, facts = time.monotonic(), []
    ask = Ask(backend)
    for probe in probes() if chosen is None else chosen:
        if step is not None:
            step(probe.title)
        try:
            facts += list(probe.facts(ask))
        except NotAnswered as reason:
            facts.append(unknown(probe.about, str(reason)))
        except _UNREADABLE as error:
            facts.append(
                unknown(
                    probe.about,
                    f"what came back cannot be read ({type(error).__name__}: {str(error)[:120]})",
                )
            )
    return Fingerprint.of(backend.name, facts, time.monotonic() - began, ask.calls)
