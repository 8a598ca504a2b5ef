"""Sentences are for people: with noise in their place a run comes to the same verdicts, causes,
smaller cases, scripts, counts on its pages and exit status."""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
import re
from dataclasses import replace
from typing import Any

import pytest

from consistency.core.model import Comparison, Result
from consistency.engine import engine
from consistency.engine.config import configure
from consistency.engine.events import Event, Judged, Minimized, PrecisionScalingMeasured
from consistency.judge.judgment import Judgment
from consistency.report import repro_script
from consistency.report.summary import RunSummary
from tests.support.catalog import FAULTS, outcomes
from tests.support.catalog.model import Fault, constantly

CAUSES = (
    "input-modified", "nondeterministic", "float32-instead-of-float64", "tf32-inputs",
    "strides-ignored", "nan-dropped", "depends-on-batch", "one-pass-variance", "approximation",
)  # fmt: skip
# Errors of the last elements that are too small to look for them at other positions: that they are
# the last ones is all that is known.
SMALL_TAIL = Fault(
    "tail of 8 off by a few ulp", "exp", constantly(outcomes.after(outcomes.tail(8, 1 + 2.0**-20))),
    cause="depends-on-position",
)  # fmt: skip
EXAMPLES = 6
# Of a script's and an issue's lines those that quote the sentence.
QUOTES = re.compile(r"noise-[0-9a-f]{12}")


def chosen_faults() -> list[Fault]:
    """The first row of the catalog for each cause, and one that only its place tells."""
    rows = [next(row for row in FAULTS if row.cause == cause) for cause in CAUSES]
    assert len({row.name for row in rows}) == len(CAUSES)
    return [*rows, SMALL_TAIL]


def noisy(kind: type[Any], names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of ``kind`` get noise in place of these texts; equal texts stay equal, for what counts
    them."""
    original = kind.__init__
    signature = inspect.signature(original)

    @functools.wraps(original)
    def scrambled(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        for name in names:
            text = bound.arguments.get(name, "")
            if text and not QUOTES.fullmatch(text):
                digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
                bound.arguments[name] = f"noise-{digest[:12]}"
        original(*bound.args, **bound.kwargs)

    monkeypatch.setattr(kind, "__init__", scrambled)


def told(row: Fault) -> tuple[list[Any], RunSummary, list[Result]]:
    """Everything that a run of one fault comes to, without sentences; its numbers; its failures."""
    configured = configure(
        [row.operator], [row.backend()], [row.dtype], row.directions, examples=EXAMPLES, repeat=4
    )
    facts: list[Any] = []
    summary = RunSummary()
    failures: list[Result] = []
    events: list[Event] = list(engine.run(configured))
    for event in events:
        if isinstance(event, Judged):
            for result in event.results:
                summary.add(result)
                facts.append(fact(result))
                failures += [result] if result.verdict.fails else []
        elif isinstance(event, Minimized):
            facts.append(("smaller", fact(event.original), fact(event.result)))
        elif isinstance(event, PrecisionScalingMeasured):
            facts += [(scaling.direction, scaling.measured) for scaling in event.scalings]
    return facts, summary, failures


def fact(result: Result) -> str:
    """A result without its sentence, and without experiments, which are made as time is left."""
    evidence = result.evidence
    return repr((
        result.case.digest, result.backend, result.direction, result.verdict, dict(result.metrics),
        result.worst, result.output, result.cause, round(result.share, 9),
        evidence.initial_verdict if evidence else None,
        type(result.detail),
    ))  # fmt: skip


def numbers(summary: RunSummary) -> tuple[Any, ...]:
    """What the summary and the page count."""
    return (
        summary.verdicts, summary.groups, sorted(summary.reasons.values()),
        sorted(summary.failures.worst), sorted(summary.failures.smallest),
        summary.failures.cases, summary.lost, summary.harness_failures, sorted(summary.disputes),
    )  # fmt: skip


def script(result: Result) -> str:
    """The script for a result, without the lines of its head, which quote the sentence."""
    text = repro_script.script(replace(result, explanation="noise-" + 12 * "0"))
    assert "assert" in text or "sys.exit" in text or "raised here" in text
    return text


@pytest.mark.one_in(8)
@pytest.mark.parametrize("row", chosen_faults(), ids=lambda row: row.cause)
def test_noise_in_place_of_sentences_changes_nothing(
    row: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine makes no fewer experiments: a fault of every fifth call counts them.
    monkeypatch.setattr("consistency.diagnose.diagnosis.SECONDS", math.inf)
    facts, summary, failures = told(row)
    assert failures, "a fault that is not noticed shows nothing here"
    scripts = [script(result) for result in failures[:2]]
    with monkeypatch.context() as patched:
        noisy(Judgment, ("explanation",), patched)
        noisy(Result, ("explanation",), patched)
        noisy(Comparison, ("structure", "note", "unsteady"), patched)
        again, counted, failing = told(row)
        assert all(QUOTES.match(result.explanation) for result in failing)
        assert again == facts
        assert numbers(counted) == numbers(summary)
        assert [script(result) for result in failing[:2]] == scripts


def test_a_reader_of_sentences_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise does reach what is made of a judgment."""
    noisy(Judgment, ("explanation",), monkeypatch)
    row = chosen_faults()[0]
    _, _, failures = told(row)
    assert all("modified" not in result.explanation for result in failures)
