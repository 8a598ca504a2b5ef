"""A run on many workers equals the serial one, case for case, whatever becomes of the workers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from cluster_crew import FakeCrew

from consistency import engine
from consistency.bundle import row_of
from consistency.cluster import front as fronts
from consistency.cluster.front import Front
from consistency.events import Event, Judged
from consistency.settings import Settings

PLAIN = frozenset[str]()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fronts, "LOOK_SECONDS", 0.01)


def chosen_for(**changes: Any) -> Settings:
    wanted: dict[str, Any] = {"operators": ["softmax", "nn.functional.relu"], "backends": ["cpu", "numpy"], "examples": 5}
    return engine.settings(**{**wanted, "shrink": False, **changes})


def rows(events: Iterable[Event]) -> list[str]:
    found = [row_of(result) for event in events if isinstance(event, Judged) for result in event.results]
    return sorted(repr(sorted(row.items())) for row in found)


def serial(**changes: Any) -> list[str]:
    return rows(engine.run(chosen_for(**changes)))


def clustered(crew: FakeCrew, **changes: Any) -> dict[str, list[Event]]:
    front = Front(chosen_for(**changes), crew, **({"labels": {}} if "labels" not in changes else {}))
    front.gather()
    found: dict[str, list[Event]] = {environment.name: [] for environment in front.environments}
    for environment, event in front.run():
        found[environment.name].append(event)
    return found


def test_a_killed_worker_changes_nothing() -> None:
    crew = FakeCrew({"a": PLAIN, "b": PLAIN}, lose_at=[3])
    (events,) = clustered(crew).values()
    assert crew.lost
    assert len(crew.sent) == 3  # both of them, and the one that came back
    assert rows(events) == serial()
