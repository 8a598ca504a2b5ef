"""A run whose cases are judged with several sets of numbers."""

from __future__ import annotations

import pytest

from consistency.core.model import Case
from consistency.engine import engine
from consistency.engine.events import Judged
from consistency.engine.unit_runner import started_event
from consistency.errors import UsageError


def cases(fills: int) -> list[Case]:
    config = engine.configure(
        ["exp"], ["cpu"], ["float32"], ("forward",), 2, shrink=False, exhaustive=False, fills=fills
    )
    events = list(engine.run(config))
    results = [row for event in events if isinstance(event, Judged) for row in event.results]
    assert not any(result.verdict.fails for result in results)
    assert started_event(config, {}).cases == 2 * fills
    return [result.case for result in results]


def test_each_case_is_followed_by_its_fills() -> None:
    drawn, filled = cases(1), cases(3)
    assert [case.id for case in filled[::3]] == [case.id for case in drawn]
    assert len({case.id for case in filled}) == len(filled) == 6


def test_no_fewer_than_one() -> None:
    with pytest.raises(UsageError, match="fills = 0; give 1"):
        engine.configure(["exp"], ["cpu"], fills=0)
