"""Runs for tests that ask whether something fails: nothing is made smaller, which takes seconds a
failure and adds no answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from consistency.core.model import Result
from consistency.engine import engine
from consistency.engine.events import Judged


def unshrunk(*chosen: Any, **more: Any) -> engine.Run:
    """What ``consistency.run`` with these arguments gives."""
    settings, collect = engine.configure(*chosen, **more, shrink=False), engine.Collect()
    engine.drive(settings, [collect])
    return engine.Run(
        tuple(collect.results), settings, collect.seconds, scalings=tuple(collect.scalings)
    )


def judged(*chosen: Any, **more: Any) -> Iterator[Result]:
    """The results of such a run, one after another."""
    for event in engine.run(engine.configure(*chosen, **more, shrink=False)):
        if isinstance(event, Judged):
            yield from event.results


def failures(*chosen: Any, **more: Any) -> list[Result]:
    return [result for result in judged(*chosen, **more) if result.verdict.fails]


def noticed(*chosen: Any, **more: Any) -> bool:
    """Whether a result fails; the first one ends the run."""
    return any(result.verdict.fails for result in judged(*chosen, **more))
