"""The messages of ``consistency repro`` about a case that was run again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ...core.text import format_seconds
from ..echo import echo


class Say:
    """What is told beside the result: on standard error where standard output is to hold a script,
    an issue or JSON alone."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    def __call__(self, text: str) -> None:
        from ...core.text import printable

        echo(printable(text), err=self.quiet)


def line(result: Any) -> str:
    from ...report.failure import headline

    return headline(result)


def show(result: Any, specs: Mapping[str, str], say: Say, *, as_json: bool) -> None:
    from ...report.failure import message
    from ...storage.bundle import result_to_json

    if as_json:
        echo(json.dumps(result_to_json(result)))
    elif result.verdict.fails:
        say(f"✗ {message(result, spec=specs.get(result.backend))}")
    else:
        mark = {"passed": "✓", "warned": "!", "not tested": "–"}[result.verdict.group]
        say(f"{mark} {line(result)}")


def show_minimal(minimal: Any, say: Say) -> None:
    failed, runs = minimal.rate
    ended = ", ended before it was done" if minimal.interrupted else ""
    steps = " · ".join(minimal.steps) or "nothing could be taken away"
    say(f"  smaller: {steps}   ({minimal.calls:,} cases, {format_seconds(minimal.seconds)}{ended})")
    for words in minimal.thresholds:
        say(f"  between: {words}")
    say(f"  it fails in {failed} of {runs} runs")


def compare_with_before(
    found: Any, results: Iterable[Any], identities: Mapping[str, Any], say: Say
) -> None:
    """Report whether the stored failure happened again, and if not, what differs here."""
    before = found.failing
    from ...report.repro_script.environment import of_backend

    if before is None:
        return
    repeated = next(
        (r for r in results if r.backend == before.backend and r.direction == before.direction),
        None,
    )
    if repeated is None:
        failing = [r for r in results if r.verdict.fails]
        if failing:
            say(
                f"it was found on {before.backend}; it fails on "
                f"{', '.join(sorted({r.backend for r in failing}))} as well"
            )
        return
    if repeated.verdict.diverges:
        same = (
            "reproduced"
            if repeated.verdict == before.verdict
            else f"fails, but otherwise: {before.verdict} then, {repeated.verdict} now"
        )
        say(f"{same} on {repeated.backend}")
        return
    say(f"not reproduced on {repeated.backend}: {before.verdict} then, {repeated.verdict} now")
    then, told = found.environments.get(before.backend, {}), identities.get(repeated.backend, {})
    # Of a backend in this process some of it is the process's, which other processes tell.
    now = {
        key: value
        for key, value in of_backend(repeated, told).items()
        if key in told or key in then
    }
    differences = list(_differences(then, now))
    for name, earlier, later in differences:
        say(f"  {name}: {earlier or 'not there'} then, {later or 'not there'} now")
    if not differences:
        environment_note = (
            "its environment was the same, as far as it is known"
            if then
            else "it does not say where"
        )
        say(f"  {environment_note}")


def _differences(then: Mapping[str, str], now: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
    if then:
        for name in sorted({*then, *now}):
            if str(then.get(name, "")) != str(now.get(name, "")):
                yield name, str(then.get(name, ""))[:120], str(now.get(name, ""))[:120]
