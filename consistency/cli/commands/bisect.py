"""``consistency bisect``: which version, or which switch, makes the difference."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ...errors import UsageError
from ..echo import echo
from ..options import command, option

_TORCH = "torch="
_MORE_SECONDS = 600.0  # beside a foreign case's own, for environments that pip installs


@command(short_help="Find the version or the switch that makes a failure come or go.")
@click.argument("case", metavar="CASE")
@click.option(
    "--over", multiple=True, metavar="WHAT",
    help=("torch=VERSION[,VERSION…] or torch=VERSION@PYTHON, or two backends (repeatable; "
    "default: every known switch, alone)."),
)  # fmt: skip
@click.option(
    "--backend",
    "-b",
    metavar="SPEC",
    help="Where it fails [default: what the failure's folder says, else cpu].",
)
@click.option(
    "--direction",
    metavar="D",
    help="forward or backward [default: what the folder says, else forward].",
)
@option("tolerances")
@option("identifier")
@option("case_timeout", default="2m", help="Longest that one try may take.")
@option("trust")
@click.option(
    "--pip",
    "pip",
    multiple=True,
    metavar="ARG",
    help="Passed on to pip install, e.g. --pip=--index-url=URL (repeatable).",
)
def bisect(
    case: str, over: Sequence[str], backend: str | None, direction: str | None,
    tolerances: str | None, identifier: str | None,
    case_timeout: float, pip: Sequence[str], trust: bool,
) -> None:  # fmt: skip
    """Find the version or the switch that makes a failure come or go.

    CASE is what `consistency repro` takes. The reference stays float64 of the torch that runs this
    command. Environments with another torch are made with venv and pip, once, and kept in the
    user's cache (CONSISTENCY_CACHE names another place).

    \b
    consistency bisect CASE                                        which known switch cures it
    consistency bisect CASE --over cpu --over cpu+onednn=off+threads=1
    consistency bisect CASE --over torch=2.4.1,2.6.0,2.13.0   first version that behaves otherwise
    consistency bisect CASE --over torch=2.4.1@old/bin/python --over torch=2.13.0

    \b
    Exit status: 0 what makes the difference was found · 1 it fails everywhere · 2 bad usage
    3 it fails nowhere, or too little could be tested
    """
    from ..supervision import supervise

    supervise(case, identifier, trust=trust, more_seconds=_MORE_SECONDS)
    from ...diagnose.bisect import bisect_switches, bisect_versions, try_known_switches
    from ...generate.calls.case_operator import operator_of
    from ...storage.lookup import find
    from ..foreign_case import admit

    stored = find(case, identifier)
    admit(stored.case, operator_of(stored.case))
    where = backend or stored.runnable() or "cpu"
    direction_ = direction or stored.direction or "forward"
    judge = _Judge(stored.case, direction_, tolerances, case_timeout)
    versions = [
        item
        for text in over
        if text.startswith(_TORCH)
        for item in text.removeprefix(_TORCH).split(",")
    ]
    specs = [text for text in over if not text.startswith(_TORCH)]
    echo(f"{stored.case.operator} · {stored.case.dtype} · {direction_} · {stored.case.id}")
    if versions and specs:
        raise UsageError("--over takes versions of torch or two backends, not both")
    if versions:
        names, judge.specs = _environments(versions, where, pip)
        if len(names) < 2:
            raise UsageError(
                f"one version is nothing to bisect: add another, as in --over "
                f"{_TORCH}{versions[0]},2.13.0"
            )
        outcome = bisect_versions(names, judge)
    elif specs:
        if len(specs) == 1:
            specs = [where, *specs]
        if len(specs) != 2:
            raise UsageError(f"--over takes two backends, not {len(specs)}")
        outcome = bisect_switches(specs[0], specs[1], judge)
    else:
        outcome = try_known_switches(where, judge)
    echo(outcome.words)
    states = {attempt.state for attempt in outcome.tries}
    sys.exit(0 if outcome.found else 1 if states == {"fails"} else 3)


def _environments(
    versions: Sequence[str], where: str, pip: Sequence[str]
) -> tuple[list[str], dict[str, Any]]:
    """The versions in order, and for each a function that returns the spec of a backend under it,
    creating its environment."""
    import torch

    from ...diagnose import environments
    from ...diagnose.bisect import BisectionSetup

    setup = BisectionSetup.of(where)
    if setup.python:
        raise UsageError(f"{where!r} names an interpreter already; leave @{setup.python} out")
    by_version: dict[str, Any] = {}
    for text in versions:
        version, _, python = text.partition("@")
        name = str(environments.version_of(version))

        def spec(name: str = name, python: str = python) -> str:
            if not python and environments.version_of(torch.__version__).public == name:
                return where
            if python and not Path(python).exists():
                raise UsageError(f"there is no interpreter {python!r}")
            if not python and environments.kept(name) is None:
                echo(
                    (
                        f"  making an environment with torch {name}, once, under "
                        f"{environments.place_of(name)} …"
                    ),
                    err=True,
                )
            path = python or str(environments.made(name, arguments=pip))
            return BisectionSetup(
                setup.kind, setup.place, setup.switches, path, setup.variables
            ).spec

        by_version[name] = spec
    return sorted(by_version, key=environments.version_of), by_version


class _Judge:
    """Tests one configuration and prints the result at once."""

    def __init__(self, case: Any, direction: str, tolerances: str | None, seconds: float) -> None:
        from ...generate.calls.case_operator import operator_of

        self.case, self.operator, self.direction = case, operator_of(case), direction
        self.tolerances, self.seconds = tolerances, seconds
        self.specs: dict[str, Any] = {}
        self._known: dict[str, Any] = {}

    def __call__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = self._tried(name)
            self._show(self._known[name])
        return self._known[name]

    def _tried(self, name: str) -> Any:
        from ... import backends
        from ...diagnose.bisect import Trial
        from ...diagnose.environments import CannotInstallError
        from ...engine import engine

        try:
            spec = self.specs[name]() if name in self.specs else name
        except CannotInstallError as error:
            return Trial(name, None, str(error))
        chosen = engine.configure(
            [self.operator],
            [spec],
            None,
            [self.direction],
            tolerances=self.tolerances,
            case_timeout=self.seconds,
        )
        (backend,) = chosen.backends
        try:
            reason = backends.availability(backend)
            if reason:
                return Trial(name, None, reason)
            results = engine.judge_case(
                self.case, self.operator, [backend], chosen.tolerances, (self.direction,)
            )
        finally:
            backend.close()
        if not results:
            raise UsageError(
                f"nothing to run: {self.operator.name} has no gradients in {self.case.dtype}; "
                f"leave --direction out"
            )
        return Trial(name, results[0], results[0].explanation)

    def _show(self, attempt: Any) -> None:
        from ...core.text import printable

        mark = {"fails": "✗", "passes": "✓", "not tested": "–"}[attempt.state]
        title = f"torch {attempt.name}" if attempt.name in self.specs else attempt.name
        verdict = f"{attempt.result.verdict}: " if attempt.result is not None else "not tested: "
        echo(printable(f"  {mark} {title:<24} {verdict}{attempt.reason}"))
