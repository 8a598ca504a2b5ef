"""Made-up histories, judged every morning with what was known then: permanent failures are told as
new on the first or second morning and never as flaky, flaky ones hardly ever as new."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from morning_news import holds
from simulated.histories import Told, figures, histories, mornings, write


def told_of(folder: Path, count: int, nights: int, machines: int, seed: int) -> list[Told]:
    made = histories(count, nights, machines, seed)
    write(made, folder)
    return mornings(made, folder)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> list[Told]:
    return told_of(tmp_path_factory.mktemp("few"), 60, 18, 2, 7)


@pytest.mark.nightly
def test_permanent_failures_are_new_and_flaky_ones_are_not(few: list[Told]) -> None:
    assert holds(few), [str(one)[:300] for one in few if one.new or one.flaky]
    counts = figures(few)
    assert counts["permanent"]["told in time"] == counts["permanent"]["histories"] >= 20
    assert counts["drift"]["told in time"] == counts["drift"]["fail for good"] >= 2
    assert counts["flaky"]["called new"] == 0
    assert counts["flaky"]["called flaky"] >= 0.9 * counts["flaky"]["histories"]


def test_the_judgment_can_fail(few: list[Told]) -> None:
    late = [replace(one, new=[night + 2 for night in one.new]) for one in few]
    assert not holds(late)
    accused = [replace(one, new=[3]) if one.history.kind == "flaky" else one for one in few]
    assert not holds(accused)
    excused = [replace(one, flaky=[9]) if one.history.kind == "permanent" else one for one in few]
    assert not holds(excused)
    moved = [replace(one, new=[9]) if one.history.kind == "driver" else one for one in few]
    assert not holds(moved)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [0, 1])
def test_six_hundred_histories(tmp_path: Path, seed: int) -> None:
    told = told_of(tmp_path, 600, 30, 6, seed)
    assert holds(told), figures(told)
    counts = figures(told)
    # What no single night can tell apart: flaky cases of which nothing is repeated, or whose
    # repeats agree all night. They are news once at most now and then, never for good.
    assert counts["flaky, recorded"]["called new"] <= 0.25 * counts["flaky, recorded"]["histories"]
    mornings_new = [len(one.new) for one in told if one.history.kind.startswith("flaky")]
    assert max(mornings_new) <= 6
