"""``consistency repro``: run one case again, say whether it fails again, make it smaller, and write what can be handed on."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ..cli_options import seconds
from ..errors import UsageError


@click.command(short_help="Run one case again; make it smaller; write a script and an issue.")
@click.argument("case", metavar="CASE")
@click.option("--backend", "-b", "backends", multiple=True, metavar="SPEC",
              help="Where to run it (repeatable; default: where it failed, else every backend that is available).")  # fmt: skip
@click.option(
    "--direction", "directions", multiple=True, metavar="D", help="forward or backward (default: the one that failed, else both)."
)
@click.option("--id", "identifier", metavar="ID", help="With a bundle or a recording as CASE: which case of it.")
@click.option("--minimise", "--minimize", is_flag=True, help="Look for the smallest case that fails in the same way.")
@click.option(
    "--seconds",
    "limit",
    callback=seconds,
    default="30",
    show_default=True,
    metavar="TIME",
    help="With --minimise: at most so long.",
)
@click.option("--script", is_flag=True, help="Print repro.py: torch and NumPy only, fails where the backend does.")
@click.option("--issue", is_flag=True, help="Print issue.md: what a maintainer asks for, with the script.")
@click.option("--out", "-o", type=click.Path(path_type=Path, file_okay=False), help="Write the whole artefact into this folder.")
@click.option("--tolerances", metavar="FILE", help="A tolerances.yaml in place of the packaged one.")
@click.option("--case-timeout", callback=seconds, default="30", show_default=True, metavar="TIME",
              help="Longest that one case may take on a backend in a process of its own.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One object a line per result.")
def repro(
    case: str, backends: Sequence[str], directions: Sequence[str], identifier: str | None, minimise: bool, limit: float,
    script: bool, issue: bool, out: Path | None, tolerances: str | None, case_timeout: float, as_json: bool,
) -> None:  # fmt: skip
    """Run one case again; make it smaller; write a script and an issue.

    CASE is a case's line of JSON, its id in a bundle under reports/ (matmul-3fa1c2d409), a failure's folder, a file that holds the
    line, or with --id a bundle or a recording. Inputs are rebuilt from the description; nothing in a folder is executed.

    \b
    consistency repro reports/TIME/failures/ID
    consistency repro matmul-3fa1c2d409 --backend cuda --minimise --out for-the-issue
    consistency repro '{"operator":"exp","dtype":"float32","args":[…]}' -b cuda --script > it.py
    consistency repro from-windows --id ID --issue

    \b
    Exit status: 1 it fails (again) · 0 it does not · 2 bad usage, or a damaged folder
    3 it cannot run here, or nothing could be told
    """
    from ..find import find

    found = find(case, identifier)
    quiet = script or issue or as_json  # then standard output holds nothing else
    say = _Say(quiet)
    if found.recording:
        results, specs, identities = _judged_elsewhere(found, tolerances, say)
        missing = 1
    else:
        chosen, results, missing = _run(found, backends, directions, tolerances, case_timeout, say)
        specs, identities = dict(chosen.specs), {b.name: b.identity for b in chosen.backends}
    failing = [r for r in results if r.verdict.fails or r.verdict.value == "expected"]
    minimal = None
    if minimise and failing and not found.recording:
        minimal = _minimal(failing[0], chosen, limit, say)
        results = [minimal.result if r is failing[0] else r for r in results]
        failing[0] = minimal.result
    for result in results:
        _show(result, specs, say, as_json=as_json)
    if minimal is not None:
        _show_minimal(minimal, say)
    if not found.recording:
        _compare_with_before(found, results, identities, say)
    _hand_on(failing, results, specs, identities, minimal, script=script, issue=issue, out=out, say=say)
    if failing and any(r.verdict.fails for r in failing):
        sys.exit(1)
    sys.exit(3 if missing or not any(r.verdict.tested for r in results) else 0)


class _Say:
    """What is told beside the result: on standard error where standard output is to hold a script, an issue or JSON alone."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    def __call__(self, text: str) -> None:
        from ..report.failure import printable

        click.echo(printable(text), err=self.quiet)


def _run(
    found: Any, specs: Sequence[str], directions: Sequence[str], tolerances: str | None, case_timeout: float, say: _Say
) -> tuple[Any, list[Any], int]:
    """Settings, results, and how many of the backends could not be used."""
    from .. import backends as known
    from .. import engine
    from ..materialise import prepare
    from ..opinfo import operator_of
    from ..report.failure import printable

    operator = operator_of(found.case)
    prepare(found.case).build()  # what cannot be built is bad usage here, no verdict
    wanted = list(specs) or ([found.spec] if found.spec else None)
    ways = list(directions) or ([found.direction] if found.direction else engine.DIRECTIONS)
    chosen = engine.settings([operator], wanted, None, ways, tolerances=tolerances, case_timeout=case_timeout)
    absent = {b.name: known.availability(b) for b in chosen.backends}
    for name, reason in absent.items():
        if reason:
            click.echo(printable(f"– {name}: cannot run here: {reason}"), err=True)
    present = [b for b in chosen.backends if not absent[b.name]]
    try:
        results = engine.judge_case(
            found.case, operator, present, chosen.tolerances, chosen.directions, looks=engine.Looks(), against=engine.EACH
        )
        if present and not results:
            raise UsageError(f"nothing to run: {operator.name} has no gradients in {found.case.dtype}; leave --direction out")
        identities = [b.identity for b in present]  # asked for while a worker is there to answer
        assert len(identities) == len(present)
    finally:
        for backend in chosen.backends:
            backend.close()
    if not present:
        for result in found.results:
            say(f"  recorded: {_line(result)}")
    return chosen, results, len(chosen.backends) - len(present)


def _judged_elsewhere(found: Any, tolerances: str | None, say: _Say) -> tuple[list[Any], dict[str, str], dict[str, Any]]:
    """The recorded outcome judged here; the device itself is not."""
    from ..events import Judged
    from ..recording.judging import events, plan

    planned = plan([found.folder], None, tolerances, [found.recorded_id])
    try:
        results = [r for event in events(planned) if isinstance(event, Judged) for r in event.results]
    finally:
        planned.close()
    backend = next(iter(found.environments), found.spec)
    say(f"– {backend}: cannot run here: its outcome was recorded elsewhere, in {found.folder}; that is what is judged:")
    return results, {r.backend: str(found.folder) for r in results}, {r.backend: dict(found.environments[backend]) for r in results}


def _line(result: Any) -> str:
    from ..report.failure import headline

    return headline(result)


def _show(result: Any, specs: Mapping[str, str], say: _Say, *, as_json: bool) -> None:
    from ..bundle import result_to_json
    from ..report.failure import message

    if as_json:
        click.echo(json.dumps(result_to_json(result)))
    elif result.verdict.fails:
        say(f"✗ {message(result, spec=specs.get(result.backend))}")
    else:
        mark = {"passed": "✓", "warned": "!", "not tested": "–"}[result.verdict.group]
        say(f"{mark} {_line(result)}")


def _minimal(failing: Any, chosen: Any, limit: float, say: _Say) -> Any:
    """The smallest case, with progress on a terminal."""
    from ..minimise import minimise
    from ..opinfo import operator_of

    backend = next(b for b in chosen.backends if b.name == failing.backend)
    from rich.console import Console

    console = Console(stderr=True)
    began = time.monotonic()
    with console.status("looking for a smaller case (Ctrl-C keeps the best so far)") as status:

        def progress(now: Any) -> None:
            so_far = f"{now.calls:,} cases, {time.monotonic() - began:.0f} s: {now.size:,} numbers"
            status.update(f"{so_far}; {now.words} (Ctrl-C keeps the best so far)")

        try:
            return minimise(
                failing, operator_of(failing.case), backend, chosen.tolerances, seconds=limit, against="float64", progress=progress
            )
        finally:
            backend.close()


def _show_minimal(minimal: Any, say: _Say) -> None:
    failed, runs = minimal.rate
    ended = ", ended before it was done" if minimal.interrupted else ""
    steps = " · ".join(minimal.steps) or "nothing could be taken away"
    say(f"  smaller: {steps}   ({minimal.calls:,} cases, {minimal.seconds:.1f} s{ended})")
    for words in minimal.thresholds:
        say(f"  between: {words}")
    say(f"  it fails in {failed} of {runs} runs")


def _compare_with_before(found: Any, results: Iterable[Any], identities: Mapping[str, Any], say: _Say) -> None:
    """Whether what is known of the case happened again, and if not, what is different here."""
    before = found.failing
    if before is None:
        return
    again = next((r for r in results if r.backend == before.backend and r.direction == before.direction), None)
    if again is None:
        others = [r for r in results if r.verdict.fails]
        if others:
            say(f"it was found on {before.backend}; it fails on {', '.join(sorted({r.backend for r in others}))} as well")
        return
    if again.verdict.fails or again.verdict.value == "expected":
        same = (
            "reproduced" if again.verdict == before.verdict else f"fails, but otherwise: {before.verdict} then, {again.verdict} now"
        )
        say(f"{same} on {again.backend}")
        return
    say(f"not reproduced on {again.backend}: {before.verdict} then, {again.verdict} now")
    differences = list(_differences(found.environments.get(before.backend, {}), identities.get(again.backend, {})))
    for name, then, now in differences:
        say(f"  {name}: {then or 'not there'} then, {now or 'not there'} now")
    if not differences:
        told = (
            "its environment was the same, as far as it is known"
            if found.environments.get(before.backend)
            else "it does not say where"
        )
        say(f"  {told}")


def _differences(then: Mapping[str, str], now: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    if then:
        for name in sorted({*then, *now}):
            if str(then.get(name, "")) != str(now.get(name, "")):
                yield name, str(then.get(name, ""))[:120], str(now.get(name, ""))[:120]


def _hand_on(
    failing: Sequence[Any], results: Sequence[Any], specs: Mapping[str, str], identities: Mapping[str, Any], minimal: Any, *,
    script: bool, issue: bool, out: Path | None, say: _Say,
) -> None:  # fmt: skip
    if not (script or issue or out is not None):
        return
    if not failing:
        raise UsageError("it fails nowhere here, so there is no script and no issue to write")
    from .. import artefact

    result = failing[0]
    others = [r for r in results if r is not result and r.case.id == result.case.id and r.direction == result.direction]
    spec, identity = specs.get(result.backend), identities.get(result.backend, {})
    if out is not None:
        artefact.write(out, result, spec=spec, identity=identity, others=others, minimal=minimal)
        say(f"wrote {out}: {', '.join(sorted(p.name for p in out.iterdir() if p.is_file()))}")
    if script:
        click.echo(artefact.script(result, spec=spec), nl=False)
    if issue:
        click.echo(artefact.issue(result, spec=spec, identity=identity, others=others, minimal=minimal), nl=False)
