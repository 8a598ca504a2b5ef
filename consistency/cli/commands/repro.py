"""``consistency repro``: run one case again, report whether it fails again, minimize it, and write
a script or an issue."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import UsageError
from ..echo import echo
from ..options import FOLDER, command, option, seconds
from ._last_run import worst_failure
from ._repro_words import Say, compare_with_before, line, show, show_minimal

if TYPE_CHECKING:
    from ...core.model import Result
    from ...engine.config import RunConfig
    from ...storage.lookup import StoredCase

_WRITING_SECONDS = 20.0  # beside a foreign case's own: other backends run it, scripts trace it


@command(short_help="Run one case again; make it smaller; write a script and an issue.")
@click.argument("case", metavar="[CASE]", required=False)
@option("backends", help=("Where to run it (repeatable; default: where it failed, else every "
"backend "
              "that is available)."))  # fmt: skip
@click.option(
    "--direction",
    "directions",
    multiple=True,
    metavar="D",
    help="forward or backward (default: the one that failed, else both).",
)
@option("identifier")
@click.option(
    "--minimize",
    is_flag=True,
    help="Look for the smallest case that fails in the same way.",
)
@click.option(
    "--seconds",
    "limit",
    callback=seconds,
    default="30s",
    show_default=True,
    metavar="TIME",
    help="With --minimize: at most so long.",
)
@click.option(
    "--script", is_flag=True, help="Print repro.py: torch alone, fails where the backend does."
)
@click.option(
    "--issue", is_flag=True, help="Print issue.md: what a maintainer asks for, with the script."
)
@click.option(
    "--out",
    "-o",
    type=FOLDER,
    help="Write the whole artifact into this folder.",
)
@option("tolerances")
@option("case_timeout")
@option("trust")
@click.option("--json", "as_json", is_flag=True, help="One object a line per result.")
def repro(
    case: str | None, backends: Sequence[str], directions: Sequence[str], identifier: str | None,
    minimize: bool, limit: float,
    script: bool, issue: bool, out: Path | None, tolerances: str | None, case_timeout: float,
    trust: bool, as_json: bool,
) -> None:  # fmt: skip
    """Run one case again; make it smaller; write a script and an issue.

    CASE is a case's line of JSON, its id in a bundle under reports/ (matmul-3fa1c2d409), a
    failure's folder, a file that holds the line, or with --id a bundle or a recording; default: the
    worst failure of the last run under reports/. Inputs are
    rebuilt from the description; nothing in a folder is executed. A case that your own runs did not
    write runs in a process of its own, and only if it asks for what such a case may have.

    \b
    consistency repro reports/TIME/failures/ID
    consistency repro matmul-3fa1c2d409 --backend cuda --minimize --out for-the-issue
    consistency repro '{"operator":"exp","dtype":"float32","args":[…]}' -b cuda --script > it.py
    consistency repro from-windows --id ID --issue

    \b
    Exit status: 1 it fails (again) · 0 it does not · 2 bad usage, or a damaged folder
    3 it cannot run here, or nothing could be told
    """
    from ..supervision import supervise

    if case is None:
        if identifier is not None:
            raise UsageError(f"--id {identifier}: of which bundle or recording? name its folder")
        case = str(worst_failure())
    more = (limit if minimize else 0.0) + (_WRITING_SECONDS if script or issue or out else 0.0)
    supervise(case, identifier, trust=trust, more_seconds=more)
    from ...storage.lookup import find
    from ..foreign_case import note_case

    stored = find(case, identifier)
    note_case(stored.case)
    say = Say(quiet=script or issue or as_json)  # standard output then holds nothing else
    if stored.recording:
        ran = _judged_elsewhere(stored, tolerances, say)
    else:
        ran = _run(stored, backends, directions, tolerances, case_timeout, say)
    failing = [r for r in ran.results if _failed(r)]
    minimal = None
    if minimize and failing and ran.chosen is not None:
        minimal = _minimal(failing[0], ran.chosen, limit, say)
        ran.results[ran.results.index(failing[0])] = minimal.result
        failing[0] = minimal.result
    for result in ran.results:
        show(result, ran.specs, say, as_json=as_json)
    if minimal is not None:
        show_minimal(minimal, say)
    if ran.chosen is not None:
        if not say.quiet:
            from ...probes.explain.properties import remarks

            for remark in remarks(ran.results, ran.chosen.backends):
                say(f"  {remark}")
        compare_with_before(stored, ran.results, ran.identities, say)
    if script or issue or out is not None:
        if not failing:
            raise UsageError("it fails nowhere here, so there is no script and no issue to write")
        _hand_on(failing[0], ran, minimal, script=script, issue=issue, out=out, say=say)
    if any(r.verdict.fails for r in failing):
        sys.exit(1)
    sys.exit(3 if ran.missing or not any(r.verdict.tested for r in ran.results) else 0)


def _failed(result: Result) -> bool:
    """Whether it fails, or is a known divergence."""
    return result.verdict.diverges


@dataclass
class _Ran:
    """The results of the case. ``chosen`` is None if a recording was judged; ``missing`` counts
    unusable backends."""

    results: list[Result]
    specs: Mapping[str, str]
    identities: Mapping[str, Mapping[str, str]]
    missing: int
    chosen: RunConfig | None = None


def _run(
    stored: StoredCase,
    specs: Sequence[str],
    directions: Sequence[str],
    tolerances: str | None,
    case_timeout: float,
    say: Say,
) -> _Ran:
    from ... import backends as known
    from ...core.text import printable
    from ...engine import engine
    from ...generate.calls.case_operator import operator_of
    from ...generate.materialize import prepare
    from ..foreign_case import admit

    operator = operator_of(stored.case)
    admit(stored.case, operator)
    prepare(stored.case).build()  # an invalid case is bad usage here, not a verdict
    # A name that results bear need not be a spec: `mine` of mine.py:Mine. What is a spec here is
    # never taken for another one.
    spelled = [spec if known.is_known(spec) else stored.runnable(spec) for spec in specs]
    requested = spelled or ([stored.runnable()] if stored.spec else None)
    chosen_directions = list(directions) or (
        [stored.direction] if stored.direction else engine.DIRECTIONS
    )
    chosen = engine.configure(
        [operator],
        requested,
        None,
        chosen_directions,
        tolerances=tolerances,
        case_timeout=case_timeout,
    )
    absent = {b.name: known.availability(b) for b in chosen.backends}
    for name, reason in absent.items():
        if reason:
            echo(printable(f"– {name}: cannot run here: {reason}"), err=True)
    present = [b for b in chosen.backends if not absent[b.name]]
    try:
        results = engine.judge_case(
            stored.case,
            operator,
            present,
            chosen.tolerances,
            chosen.directions,
            diagnosis_budget=engine.DiagnosisBudget(),
            against=engine.EACH,
        )
        if present and not results:
            raise UsageError(
                f"nothing to run: {operator.name} has no gradients in {stored.case.dtype}; leave "
                "--direction out"
            )
        identities = {b.name: b.identity for b in present}  # read while a worker is running
    finally:
        for backend in chosen.backends:
            backend.close()
    if not present:
        from ...probes.explain.properties import stored_confirmation

        for result in stored.results:
            say(f"  recorded: {line(result)}")
            confirmed = stored_confirmation(result, stored.fingerprints.get(result.backend, {}))
            if confirmed:
                say(f"  {result.backend}: {confirmed}")
    return _Ran(results, chosen.specs, identities, len(chosen.backends) - len(present), chosen)


def _judged_elsewhere(stored: StoredCase, tolerances: str | None, say: Say) -> _Ran:
    """Judge the recorded outcome here, without the device."""
    from ...engine.events import Judged
    from ...engine.judge_recordings import events, plan

    assert stored.folder is not None
    planned = plan([stored.folder], None, tolerances, [stored.recorded_id])
    try:
        results = [
            r for event in events(planned) if isinstance(event, Judged) for r in event.results
        ]
    finally:
        planned.close()
    backend = next(iter(stored.environments), stored.spec)
    say(
        f"– {backend}: cannot run here: its outcome was recorded elsewhere, in {stored.folder}; "
        f"that is what is judged:"
    )
    specs = {r.backend: str(stored.folder) for r in results}
    return _Ran(
        results,
        specs,
        {r.backend: dict(stored.environments[backend]) for r in results},
        missing=1,
    )


def _minimal(failing: Result, chosen: RunConfig, limit: float, say: Say) -> Any:
    """The smallest case, with progress on a terminal."""
    from ...diagnose.shrink import minimize
    from ...generate.calls.case_operator import operator_of

    backend = next(b for b in chosen.backends if b.name == failing.backend)
    from ...report.safe_console import SafeConsole

    console = SafeConsole(stderr=True)
    began = time.monotonic()
    with console.status("looking for a smaller case (Ctrl-C keeps the best so far)") as status:

        def progress(now: Any) -> None:
            so_far = f"{now.calls:,} cases, {time.monotonic() - began:.0f} s: {now.size:,} numbers"
            status.update(f"{so_far}; {now.words} (Ctrl-C keeps the best so far)")

        try:
            return minimize(
                failing,
                operator_of(failing.case),
                backend,
                chosen.tolerances,
                seconds=limit,
                against="float64",
                progress=progress,
            )
        finally:
            backend.close()


def _hand_on(
    result: Result,
    ran: _Ran,
    minimal: Any,
    *,
    script: bool,
    issue: bool,
    out: Path | None,
    say: Say,
) -> None:
    """Write or print the script and the issue, with the results of other backends."""
    from ...core.foreign import active
    from ...report import repro_script

    failing = [
        r
        for r in ran.results
        if r is not result and r.case.id == result.case.id and r.direction == result.direction
    ]
    if ran.chosen is not None and (issue or out is not None):
        failing += _judge_on_other_backends(result, [result, *failing], ran.chosen)
    spec, identity = ran.specs.get(result.backend), ran.identities.get(result.backend, {})
    if out is not None:
        repro_script.write(
            out, result, spec=spec, identity=identity, others=failing, minimal=minimal,
            own=active() is None,
        )  # fmt: skip
        say(f"wrote {out}: {', '.join(sorted(p.name for p in out.iterdir() if p.is_file()))}")
    if script:
        echo(repro_script.script(result, spec=spec), nl=False)
    if issue:
        echo(
            repro_script.issue(
                result, spec=spec, identity=identity, others=failing, minimal=minimal
            ),
            nl=False,
        )


def _judge_on_other_backends(
    result: Result, done: Sequence[Result], chosen: RunConfig
) -> list[Result]:
    """The same case and direction on every available backend that has not judged it."""
    from ... import backends as known
    from ...engine import engine
    from ...generate.calls.case_operator import operator_of

    tried = {r.backend for r in done}
    operator, case, direction = operator_of(result.case), result.case, result.direction
    candidates = [
        known.isolated(b, b.name) for b in known.default_backends() if b.name not in tried
    ]
    try:
        candidates = [
            b
            for b in candidates
            if not known.availability(b) and not known.refusal(b, operator, case.dtype, direction)
        ]
        return (
            engine.judge_case(
                case, operator, candidates, chosen.tolerances, (direction,), against=engine.EACH
            )
            if candidates
            else []
        )
    finally:
        for backend in candidates:
            backend.close()
