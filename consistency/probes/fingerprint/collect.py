"""All probes in order, and the fingerprint that they give.

A question without an answer is inconclusive, with the reason; a failing probe affects no other
probe.
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
# Raised if a result has an unexpected shape, dtype or structure.
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
    """``title`` is shown by the progress bar; ``about`` is the question that is reported if the
    probe fails."""

    title: str
    about: str
    facts: Callable[[Ask], Iterator[Fact]]


def probes(dtypes: Sequence[str] = DTYPES) -> list[Probe]:
    """Every probe, the most informative first."""
    all_probes = [Probe("width of float64 and int64", "width", dtype_width.facts)]
    for dtype in dtypes:
        all_probes += [
            Probe(
                f"{form} {dtype}",
                f"{form}/{dtype}/multiplicand",
                functools.partial(_sums, form, dtype),
            )
            for form in FORMS
        ]
    for dtype in dtypes:
        all_probes += [
            Probe(
                f"subnormals {dtype}",
                f"subnormals/{dtype}",
                functools.partial(_facts_of, subnormals.facts, dtype),
            ),
            Probe(
                f"x·y + z {dtype}",
                f"addcmul/{dtype}/fma",
                functools.partial(_facts_of, contraction.fused, dtype),
            ),
            Probe(
                f"division {dtype}",
                f"division/{dtype}",
                functools.partial(_facts_of, division.facts, dtype),
            ),
        ]
    all_probes += [
        Probe(
            f"order of sums {dtype}",
            f"order/{dtype}",
            functools.partial(_facts_of, order.facts, dtype),
        )
        for dtype in ORDERED
    ]
    all_probes += [
        Probe("corner cases", "edges", edge_cases.facts),
        Probe("repetition, batches, layouts", "repeated", determinism.facts),
    ]
    return all_probes + [
        Probe(
            f"functions {dtype}",
            f"functions/{dtype}",
            functools.partial(_facts_of, elementary.facts, dtype),
        )
        for dtype in dtypes
    ]


def _sums(form: str, dtype: str, ask: Ask) -> Iterator[Fact]:
    precision_facts = list(input_precision.facts(ask, form, dtype))
    yield from precision_facts
    yield from accumulator.facts(ask, form, dtype)
    yield from contraction.products(ask, form, dtype, precision_facts[0])


def _facts_of(facts: Callable[[Ask, str], Iterator[Fact]], dtype: str, ask: Ask) -> Iterator[Fact]:
    return facts(ask, dtype)


def take(
    backend: Backend,
    chosen: Sequence[Probe] | None = None,
    step: Callable[[str], None] | None = None,
) -> Fingerprint:
    """Run all probes, or the ``chosen`` ones. ``step`` gets the title of each probe before it
    begins. Never raises because of a backend's behavior."""
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
