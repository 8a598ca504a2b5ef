"""A new entry for a failing case: where it fails, how often, under which condition, and the largest
error allowed."""

from __future__ import annotations

import datetime
import functools
import glob
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ... import backends as _backends
from ...core.model import Result
from ...errors import BundleError, UsageError
from ...generate.calls.case_operator import operator_of
from ...judge.known import schema
from ...judge.known.entries import RATE_DESCRIBED, Expectation, Occasion
from ...storage.bundle import read_header
from ...storage.lookup import StoredCase
from .. import engine
from ..config import RunConfig
from ..events import Judged
from . import write
from .predicate_evidence import PredicateEvidence, PredicateTrials, from_bundle, search
from .predicate_search import Narrowed

HEADROOM = 4.0  # × the largest error observed: max_rho of a new entry
SENSELESS = 1e6  # × budget: no digit is right
_WITH_SIZE = frozenset({"divergent", "precision-scaling", "reduced-precision"})
_RUNS_OF_FLAKES = 25


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


@dataclass(frozen=True)
class Proposal:
    """An entry that is ready to be written. ``told``: the evidence for it."""

    path: Path
    said: dict[str, Any]
    notes: tuple[str, ...]
    told: tuple[str, ...]

    @property
    def text(self) -> str:
        return write.entry_text(self.said)

    def written(self) -> str:
        """Append it to its file; returns ``FILE:LINE``."""
        return write.append(self.path, self.said, self.notes)


def propose(
    request: ProposalRequest,
    *,
    ticket: str,
    reason: str | None,
    expires: datetime.date | None,
    say: Callable[[str], None] = lambda text: None,
) -> Proposal:
    """The entry for a case. Raises UsageError if it does not fail or is known already."""
    chosen, absent = _settings(request)
    (backend,), (operator,) = chosen.backends, chosen.operators
    try:
        absent = absent or _backends.availability(backend) or ""
        target, other_results = _target(request, chosen, absent)
        entries = (
            *chosen.tolerances.expectations,
            *(write.read(request.path) if request.path.exists() else ()),
        )
        identity = (
            dict(request.found.environments.get(target.backend, {})) if absent else backend.identity
        )
        occasion = Occasion(target.case, target.backend, target.direction, identity)
        _refuse_known(target, occasion, entries)
        evidence = _evidence(request, target, other_results, say)
        failed = runs = 0
        trials = None
        if not absent and request.seconds > 0:
            trials = PredicateTrials(
                operator,
                backend,
                target.direction,
                chosen.tolerances,
                time.monotonic() + request.seconds,
            )
            failed, runs = trials.rate(target.case, evidence.verdicts)
            if 0 < failed < runs:
                failed, runs = trials.rate(target.case, evidence.verdicts, _RUNS_OF_FLAKES)
            say(_often(failed, runs))
        narrowed = search(
            target.case, evidence, trials if failed == runs else None
        )  # for flaky failures one more run proves nothing
    finally:
        backend.close()
    fields = _entry_fields(target, evidence, narrowed)
    if 0 < failed < runs:
        fields |= {"flaky": True, "rate": float(f"{failed / runs:.2g}")}
    fields |= {
        "reason": reason or _reason(target),
        "ticket": ticket,
        "since": datetime.date.today(),
        "expires": expires,
    }
    _check(fields, occasion, target, entries)
    return Proposal(
        request.path,
        fields,
        (f"{target.case.id}: {_covers(narrowed)}",),
        tuple(_notes(fields, narrowed, evidence, trials)),
    )


def _settings(request: ProposalRequest) -> tuple[RunConfig, str]:
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


def _target(
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


def _refuse_known(target: Result, occasion: Occasion, entries: Sequence[Expectation]) -> None:
    verdict, rho = target.verdict.value, target.metrics.get("rho_max", 0.0)
    entry = occasion.known(entries, verdict, rho)
    place = (
        entry.place if entry is not None else target.known.place if target.known is not None else ""
    )
    if entry is not None or verdict == "known":
        raise UsageError(
            f"{target.case.id} is expected already, by {place or 'another entry'}; nothing is "
            f"written"
        )


def _evidence(
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


def _often(failed: int, runs: int) -> str:
    kind = (
        "always"
        if failed == runs
        else f"flaky, {failed / runs:.0%} of the runs"
        if failed
        else "not at all"
    )
    more = "" if failed else "; what is written rests on where it did"
    return f"fails here in {failed} of {runs} runs: {kind}{more}"


def _entry_fields(
    target: Result, evidence: PredicateEvidence, narrowed: Narrowed
) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operator": glob.escape(target.operator), "dtype": target.dtype,
        "direction": target.direction,
        "when": narrowed.when or None, "backend": glob.escape(target.backend),
        "verdicts": sorted(evidence.verdicts),
    }  # fmt: skip
    worst = largest(evidence, narrowed)
    if evidence.verdicts <= _WITH_SIZE and 0.0 < worst <= SENSELESS:
        said["max_rho"] = max(_round_up(HEADROOM * worst), 1.0)
    if narrowed.passing:
        said["rate"] = float(f"{max(narrowed.rate, 0.001):.2g}")
    elif narrowed.least_rate > RATE_DESCRIBED:  # more than the default rate of an entry
        said["rate"] = math.floor(100.0 * narrowed.least_rate) / 100.0
    return said


def largest(evidence: PredicateEvidence, narrowed: Narrowed) -> float:
    """The largest × budget among the failing cases that a condition covers."""
    inside = [
        case
        for case in evidence.failing.values()
        if narrowed.when == "" or evidence.holds(narrowed.when, case)
    ]
    return max((evidence.rho.get(case.id, 0.0) for case in inside), default=0.0)


def _round_up(number: float) -> float:
    """Round up to two significant digits."""
    scale = 10.0 ** (math.floor(math.log10(number)) - 1)
    return float(f"{math.ceil(number / scale - 1e-9) * scale:.2g}")


def _reason(target: Result) -> str:
    cause = target.evidence.cause if target.evidence is not None else None
    return str(cause) if cause is not None else target.explanation.split("; ")[0][:160]


def _check(
    fields: dict[str, Any], occasion: Occasion, target: Result, entries: Sequence[Expectation]
) -> None:
    """Check that the entry matches its own case and does not exist yet."""
    text = "expectations:\n" + write.entry_text(fields)
    (entry,) = schema.read(text, "the new entry")
    twin = next((other for other in entries if other.id == entry.id), None)
    if twin is not None:
        raise UsageError(
            f"{twin.place} says the same, but has expired or allows a smaller error: change it "
            f"there; nothing is written"
        )
    if (
        occasion.known(
            [replace(entry, place="")], target.verdict.value, target.metrics.get("rho_max", 0.0)
        )
        is None
    ):
        raise UsageError(f"no entry could be made that covers {target.case.id}; please report it")


def _covers(narrowed: Narrowed) -> str:
    passing = (
        f"{narrowed.passing or 'none'} of {narrowed.of_passing:,} that pass"
        if narrowed.of_passing
        else "nothing was seen to pass"
    )
    return f"covers {narrowed.failing:,} of {narrowed.of_failing:,} failing cases, {passing}"


def _notes(
    fields: dict[str, Any],
    narrowed: Narrowed,
    evidence: PredicateEvidence,
    trials: PredicateTrials | None,
) -> Sequence[str]:
    runs = f"; {trials.ran:,} runs here" if trials is not None else ""
    notes = [f"{_covers(narrowed)}{runs}"]
    if trials is not None and trials.out_of_time and not trials.stood:
        notes.append(
            "the time was up before the condition had stood a round of new cases; --seconds 60s "
            "tries more"
        )
    if not narrowed.when:
        notes.append(
            "no condition tells the failing cases from the others"
            if narrowed.passing
            else "no condition is needed, or known"
        )
    if "max_rho" in fields:
        worst = largest(evidence, narrowed)
        notes.append(
            f"max_rho is {HEADROOM:g} × the largest error seen, {worst:.3g} × budget; what errs "
            "more still fails"
        )
    if "rate" in fields and not narrowed.passing and not fields.get("flaky"):
        notes.append(
            f"rate: {narrowed.failing:,} failures and no pass show (95% certain) that at least "
            f"{fields['rate']:.0%} fail"
        )
    return notes
