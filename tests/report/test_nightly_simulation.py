"""A month of nights on three machines, with planted changes: each is found on its night, and
nothing else is told.

The year on twelve machines is benchmarks/nightly_py; its figures are in docs/matrix.md.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from consistency.report.history.bundle_sources import bundles
from consistency.report.history.snapshot import snapshot
from consistency.report.history.store import Store
from tests.support.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from simulated.bundles import make
from simulated.scores import mornings, score
from simulated.world import World


@pytest.mark.nightly
def test_planted_changes_are_found_and_nothing_else(tmp_path: Path) -> None:
    world = World(environments=3, nights=50, cases=200, seed=5)
    planted, many = make(world, tmp_path / "nights", processes=1)
    assert many > 25_000
    found, problems = bundles([tmp_path / "nights"])
    assert any("the same run" in line for line in problems)
    held = Store()
    held.take(found)
    assert any("damaged line" in line for line in held.problems)
    made = snapshot(held)
    result = score(made, planted)
    assert sum(result.planted.values()) >= 8
    assert {"new", "error_grew"} <= set(result.planted)
    assert result.missed == []
    assert result.false == []
    assert sum(1 for cell in made.cells.values() if cell.flaky) >= 2
    told = mornings(held, made, planted, 12, 0)
    assert told["told"] == told["planted"] > 0
    assert told["false"] == 0


def test_a_score_notices_what_was_missed_and_what_was_made_up(tmp_path: Path) -> None:
    world = World(environments=1, nights=40, cases=120, seed=1)
    planted, _ = make(world, tmp_path / "nights", processes=1)
    held = Store()
    held.take(bundles([tmp_path / "nights"])[0])
    made = snapshot(held)
    assert score(made, planted).missed == []
    moved = replace(
        made, change_points=[replace(one, run=one.run + 1) for one in made.change_points]
    )
    wrong = score(moved, planted)
    assert len(wrong.missed) == len(planted)
    assert len(wrong.false) == len(planted)
    assert wrong.share("new", "error_grew") == 0.0
