"""Fresh cases are drawn by the worker that judges them: the results are those of a serial run, and
a process that ends meanwhile costs its own unit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from consistency.engine import engine, unit_cases
from consistency.engine.plan import outline
from consistency.engine.unit_cases import drawn
from tests.engine.test_cluster import PLAIN, chosen_for, clustered, quick, rows, serial
from tests.support.fake_client import DeathError, FakeClient

__all__ = ["quick"]  # a fixture


def test_an_outline_drawn_is_the_plan() -> None:
    """Of a run without and with a time limit."""
    for limit in (None, 60.0):
        config = chosen_for(shipped=True, time_limit=limit)
        units = list(outline(config, lambda: False))
        assert any(unit.fresh for unit in units)
        whole = [drawn(unit) for unit in units]
        assert [unit for unit in whole if unit.cases] == list(engine.plan(config, lambda: False))
        pairs = zip(whole, units, strict=True)
        assert all(len(unit.cases) <= before.size for unit, before in pairs)


def test_what_is_begun_with_is_not_drawn_again() -> None:
    config = chosen_for(shipped=True, examples=40)
    for unit in outline(config, lambda: False):
        ids = [case.id for case in drawn(unit).cases]
        assert len(ids) == len(set(ids))


def test_workers_draw_what_they_judge() -> None:
    client = FakeClient({"a": PLAIN, "b": PLAIN})
    (events,) = clustered(client).values()
    assert rows(events) == list(serial())
    assert all(header["fresh"] for _, header in client.serialization)


def test_for_several_environments_cases_are_drawn_once() -> None:
    """Their versions of Hypothesis may differ."""
    client = FakeClient({"a": PLAIN, "old": PLAIN}, torch={"old": "2.4.1"})
    clustered(client)
    assert not any(header["fresh"] for _, header in client.serialization)


@pytest.mark.parametrize("lose_at", [[1], [1, 3], [2, 4]])
def test_a_lost_worker_changes_nothing_before_or_after_drawing(lose_at: list[int]) -> None:
    client = FakeClient({"a": PLAIN}, lose_at=lose_at)
    (events,) = clustered(client).values()
    assert rows(events) == list(serial())
    assert len(client.lost) == len(lose_at)


def test_a_process_that_ends_while_it_draws_costs_its_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = unit_cases.draw

    def ending(operator: Any, dtype: str, examples: int, seed: int) -> Any:
        if (operator.name, dtype) == ("sign", "float32"):
            raise DeathError
        return draw(operator, dtype, examples, seed)

    monkeypatch.setattr(unit_cases, "draw", ending)
    (events,) = clustered(FakeClient({"a": PLAIN})).values()
    found = [json.loads(row) for row in rows(events)]
    told = [row for row in found if row["verdict"] == "inconclusive"]
    assert {row["backend"] for row in told} == {"cpu", "numpy"}
    assert all("it ended while cases were drawn" in row["explanation"] for row in told)
    others = [row for row in serial() if not _is_drawn_there(json.loads(row))]
    assert others
    assert set(others) <= set(rows(events))


def _is_drawn_there(row: dict[str, Any]) -> bool:
    return (row["operator"], row["dtype"]) == ("sign", "float32")
