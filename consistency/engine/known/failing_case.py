"""The failure that a new entry is to describe: stored, or reproduced here, and the cases related to
it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...core.model import Result
from ...errors import BundleError, UsageError
from ...generate.calls.case_operator import operator_of
from ...storage.bundle import read_header
from ...storage.lookup import StoredCase
from .. import engine
from ..config import RunConfig
from ..events import Judged
from .predicate_evidence import PredicateEvidence, from_bundle


@dataclass(frozen=True)
class ProposalRequest:
    """What the user requested: the case, and where it fails if the case does not say; ``seconds``
    for running cases."""

    found: StoredCase
    spec: str | None
    direction: str | None
    folder: Path | None
    seconds: float
    path: Path
    tolerances: str | None = None
    expectations: tuple[str, ...] = ()


def settings(request: ProposalRequest) -> tuple[RunConfig, str]:
    """The settings, and why the backend cannot run here if it is unknown; an unused one then takes
    its place."""
    stored_case = request.found
    if not (request.spec or stored_case.spec):
        raise UsageError("where does it fail? Add --backend SPEC, as it was run")
    directions = (
        [request.direction]
        if request.direction
        else [stored_case.direction]
        if stored_case.direction
        else engine.DIRECTIONS
    )
    operators = [operator_of(stored_case.case)]
    settled = functools.partial(
        engine.configure, tolerances=request.tolerances, expectations=request.expectations
    )
    if stored_case.recording:
        return settled(operators, ["cpu"], None, directions), "recorded elsewhere"
    try:
        return settled(operators, [request.spec or stored_case.runnable()], None, directions), ""
    except UsageError as error:
        if request.spec or stored_case.failing is None:
            raise
        return settled(operators, ["cpu"], None, directions), str(error)


def target_of(
    request: ProposalRequest, chosen: RunConfig, absent: str
) -> tuple[Result, list[Result]]:
    """The failure to describe, stored or reproduced here, and for a recording its other results."""
    stored_case, (backend,) = request.found, chosen.backends
    if stored_case.recording:
        results = _recorded_results(stored_case, chosen)
        mine = [r for r in results if r.recorded_id == stored_case.recorded_id and r.verdict.fails]
        if not mine:
            raise UsageError(f"{stored_case.recorded_id} does not fail: nothing to expect")
        return mine[0], results
    stored_failures = stored_case.failing
    if (
        stored_failures is not None
        and (absent or stored_failures.backend == backend.name)
        and stored_failures.direction in chosen.directions
    ):
        return stored_failures, []
    if absent:
        raise UsageError(
            f"backend {backend.name!r} cannot run here ({absent}); give the bundle it failed in"
        )
    judged = engine.judge_case(
        stored_case.case,
        chosen.operators[0],
        [backend],
        chosen.tolerances,
        chosen.directions,
        diagnosis_budget=engine.DiagnosisBudget(),
        against=engine.EACH,
    )
    failing = [r for r in judged if r.verdict.diverges]
    if not failing:
        verdicts = "; ".join(f"{r.direction}: {r.verdict}" for r in judged) or "it was not judged"
        raise UsageError(
            f"{stored_case.case.id} does not fail on {backend.name} ({verdicts}): nothing to expect"
        )
    return failing[0], []


def _recorded_results(stored_case: StoredCase, chosen: RunConfig) -> list[Result]:
    from ..judge_recordings import events, plan

    assert stored_case.folder is not None
    planned = plan([stored_case.folder], [stored_case.case.operator], chosen.tolerances)
    try:
        return [r for event in events(planned) if isinstance(event, Judged) for r in event.results]
    finally:
        planned.close()


def related_cases(
    request: ProposalRequest,
    target: Result,
    other_results: Sequence[Result],
    say: Callable[[str], None],
) -> PredicateEvidence:
    """The failure itself, and the related cases of its bundle or recording."""
    first = target.evidence.initial_verdict if target.evidence is not None else target.verdict.value
    evidence = PredicateEvidence(frozenset({target.verdict.value, first}))
    evidence.add(
        target.case,
        target.verdict.value,
        fails=True,
        passes=False,
        rho=target.metrics.get("rho_max", 0.0),
    )
    like = f"of {target.operator} {target.dtype} {target.direction} on {target.backend}"
    folder = request.folder or _bundle_of(request.found.folder)
    if folder is not None:
        say(f"{folder}: {from_bundle(evidence, folder, target):,} cases {like}")
    for other in other_results:
        same = (other.operator, other.dtype, other.direction, other.backend)
        if same == (target.operator, target.dtype, target.direction, target.backend):
            rho = other.metrics.get("rho_max", 0.0)
            evidence.add(
                other.case,
                other.verdict.value,
                fails=other.verdict.fails,
                passes=other.verdict.passes,
                rho=rho,
            )
    return evidence


def _bundle_of(folder: Path | None) -> Path | None:
    """The bundle that a folder is, or that contains it."""
    for one in () if folder is None else (folder, folder.absolute().parent.parent):
        if (one / "bundle.json").is_file():
            try:
                read_header(one)
            except BundleError:
                continue
            return one
    return None
