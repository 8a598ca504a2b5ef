"""Failing and passing cases from which a condition is found: from a bundle, and drawn and run while
time remains.

Besides drawn cases, variants of the failing ones are run that differ in one respect: a tensor in
another layout, with other numbers, or without its special values. They show which respect matters.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...backends.base import Backend
from ...core.model import Case, Result
from ...core.recipe import TensorRecipe
from ...generate import layouts
from ...judge.known.case_facts import Facts
from ...judge.tolerances import Tolerances
from ...operators.declare import Operator
from ...storage import bundle
from ...storage.bundle import cases_of
from ..engine import draw, judge_case
from .predicate_search import Narrowed, covered, narrow

RUNS = 5  # of the given case, to estimate its failure rate
ROUNDS = 4
DRAWN = 150  # cases per round
RELATIVES_OF = 4  # failing cases
MOST_FROM_BUNDLE = 2000  # cases, failing and passing each


@dataclass
class PredicateEvidence:
    """Failing and passing cases of one operator, dtype, direction and backend. ``verdicts``: which
    failures count. ``rho``: the × budget of the failing cases, by id."""

    verdicts: frozenset[str]
    failing: dict[str, Case] = field(default_factory=dict)
    passing: dict[str, Case] = field(default_factory=dict)
    rho: dict[str, float] = field(default_factory=dict)

    def add(self, case: Case, verdict: str, *, fails: bool, passes: bool, rho: float) -> None:
        """Add a case; one that failed in another way, or was inconclusive, is left out."""
        if fails and verdict in self.verdicts:
            self.failing[case.id] = case
            self.rho[case.id] = max(rho, self.rho.get(case.id, 0.0))
            self.passing.pop(case.id, None)
        elif passes and case.id not in self.failing:
            self.passing[case.id] = case

    def __contains__(self, case: Case) -> bool:
        return case.id in self.failing or case.id in self.passing

    def narrowed(self, case: Case) -> Narrowed:
        return narrow(case, list(self.failing.values()), list(self.passing.values()))

    @staticmethod
    def holds(when: str, case: Case) -> bool:
        return covered(when, [case], ())[0] == 1

    def covers(self, when: str) -> Narrowed:
        """How many of the cases so far a condition covers."""
        failing, passing = covered(when, self.failing.values(), self.passing.values())
        return Narrowed(when, failing, len(self.failing), passing, len(self.passing))


def from_bundle(evidence: PredicateEvidence, folder: Path, of: Result) -> int:
    """Add the bundle's other cases of the same operator, dtype, direction and backend; return their
    number."""
    rows: dict[str, dict[str, Any]] = {}
    alike = {
        "operator": of.operator,
        "dtype": of.dtype,
        "direction": of.direction,
        "backend": of.backend,
    }
    for _, row in bundle.lines(folder / "results.jsonl"):
        if (
            all(row.get(key) == value for key, value in alike.items())
            and len(rows) < 2 * MOST_FROM_BUNDLE
        ):
            rows[str(row.get("case_id"))] = row
    for name, case in cases_of(folder, set(rows)).items():
        _add_row(evidence, case, rows[name])
    return len(rows)


def _add_row(evidence: PredicateEvidence, case: Case, row: Mapping[str, Any]) -> None:
    metrics = row.get("metrics")
    try:
        rho = (
            float(metrics["rho_max"]) if isinstance(metrics, dict) and "rho_max" in metrics else 0.0
        )
    except (TypeError, ValueError):
        rho = 0.0
    verdict = str(row.get("verdict"))
    evidence.add(
        case,
        verdict,
        fails=row.get("fails") is True,
        passes=verdict in ("rounding", "exact"),
        rho=rho,
    )


@dataclass
class PredicateTrials:
    """Runs cases on one backend in one direction, without known divergences and without diagnosis.

    ``stood``: whether the condition was right about a whole round of cases that it was not derived
    from.
    """

    operator: Operator
    backend: Backend
    direction: str
    rules: Tolerances
    deadline: float
    ran: int = 0
    stood: bool = False

    def __post_init__(self) -> None:
        self.rules = replace(self.rules, expectations=())

    @property
    def out_of_time(self) -> bool:
        return time.monotonic() >= self.deadline

    def run(self, case: Case) -> Result | None:
        """Judge a case, without diagnosis; None if nothing was judged."""
        self.ran += 1
        return next(
            iter(judge_case(case, self.operator, [self.backend], self.rules, (self.direction,))),
            None,
        )

    def rate(self, case: Case, verdicts: frozenset[str], most: int = RUNS) -> tuple[int, int]:
        """(failures, runs) of repeated runs of a case."""
        failed = runs = 0
        while runs < most and not (runs >= 2 and self.out_of_time):
            result = self.run(case)
            runs += 1
            failed += (
                result is not None and result.verdict.fails and result.verdict.value in verdicts
            )
        return failed, runs

    def into(self, evidence: PredicateEvidence, cases: Iterable[Case]) -> None:
        """Run cases until the time is up, and add them."""
        for case in cases:
            if self.out_of_time:
                return
            result = self.run(case) if case not in evidence else None
            if result is not None:
                verdict, rho = result.verdict, result.metrics.get("rho_max", 0.0)
                evidence.add(
                    case, verdict.value, fails=verdict.fails, passes=verdict.passes, rho=rho
                )


def search(case: Case, evidence: PredicateEvidence, trials: PredicateTrials | None) -> Narrowed:
    """The condition for ``case``. With ``trials`` more cases are run until a condition holds for a
    round of new ones, or time is up."""
    if trials is None:
        return evidence.narrowed(case)
    candidate = evidence.narrowed(case) if evidence.passing else None
    for round_number in range(ROUNDS):
        failing = [
            case,
            *(
                failing_case
                for failing_case in evidence.failing.values()
                if failing_case.id != case.id
            ),
        ]
        for failing_case in failing[:RELATIVES_OF]:
            trials.into(evidence, relatives(failing_case, round_number))
        cases, _ = draw(trials.operator, case.dtype, DRAWN, 1000 + round_number)
        trials.into(evidence, cases)
        coverage = evidence.covers(candidate.when) if candidate is not None else None
        if (
            coverage is not None
            and not coverage.passing
            and coverage.failing == coverage.of_failing
            and not trials.out_of_time
        ):
            trials.stood = True
            return coverage
        candidate = evidence.narrowed(case)
        if trials.out_of_time:
            break
    return evidence.narrowed(case)


def relatives(case: Case, round_number: int) -> Iterator[Case]:
    """Cases that differ from ``case`` in one tensor: its layout, its numbers, or its special
    values."""
    choose = random.Random(f"{case.id}/{round_number}")
    for tensor in (t for t in case.tensors if isinstance(t, TensorRecipe)):
        shape = Facts(case).described("shape", tensor)
        if not isinstance(shape, tuple):
            continue
        plain = replace(tensor, base=shape, view=(), special=())
        variants = [plain, replace(tensor, special=())] if tensor.view or tensor.special else []
        for layout in layouts.possible(shape):
            inverse = layouts.inverse(layout, shape, choose.randint)
            if inverse is not None:
                variants.append(replace(plain, base=inverse[0], view=(inverse[1],)))
        if tensor.values[:1] != ("uniform",):
            variants.append(replace(tensor, values=("uniform", -1.0, 1.0)))
        variants.append(replace(tensor, stop=tensor.stop + choose.randint(1, 1 << 20)))
        yield from (_replace_tensor(case, tensor, variant) for variant in variants)


def _replace_tensor(case: Case, old: TensorRecipe, new: TensorRecipe) -> Case:
    """The case with one tensor replaced."""

    def substitute(value: Any) -> Any:
        if value is old:
            return new
        return (
            type(value)(substitute(item) for item in value)
            if isinstance(value, (list, tuple))
            else value
        )

    kwargs = {name: substitute(value) for name, value in case.kwargs.items()}
    return replace(case, args=substitute(case.args), kwargs=kwargs)
