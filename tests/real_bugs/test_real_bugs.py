"""Reported bugs that the table lists as noticed by a quick run are noticed, and nothing healthy is
accused on the same cases.

The table (``outcomes.json``) is written by ``tools/real_bugs.py``; the drawn cases depend on the
versions of torch and Hypothesis, so with others a bug gets more cases before it counts as lost.
"""

from __future__ import annotations

import re
from importlib.metadata import version

import pytest

from consistency import operators
from tests.real_bugs import BUGS, Bug
from tests.real_bugs.lists import LISTS
from tests.real_bugs.outcomes import Outcomes, read
from tests.real_bugs.play import QUICK, handed, look
from tests.support.catalog.model import CAUSES
from tests.support.paths import ROOT

TABLE: Outcomes = read()
LISTED = [bug for bug in BUGS if TABLE.noticed(bug) == QUICK]
HANDED = [bug for bug in BUGS if TABLE.rows.get(bug.issue, {}).get("handed")]
MORE = ((15, 1), (30, 2))  # (examples, seed), with other versions only


def test_the_rows_are_well_formed() -> None:
    assert len(BUGS) >= 60
    assert len({bug.issue for bug in BUGS}) == len(BUGS)
    for bug in BUGS:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", bug.issue), bug.issue
        assert set(bug.operators) <= set(operators.registry()), bug.issue
        assert set(bug.causes) <= set(CAUSES), bug.issue
        assert bug.what, bug.issue
        assert not bug.what.endswith("."), bug.issue


def test_the_table_lists_every_row() -> None:
    assert set(TABLE.rows) == {bug.issue for bug in BUGS}


def test_the_readme_tells_what_the_table_says() -> None:
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    noticed, of = re.findall(r"notices ([\d,]+) of ([\d,]+) \[publicly reported", text)[0]
    assert (noticed, of) == (f"{len(LISTED):,}", f"{len(BUGS):,}")
    shares = [round(100 * one.quick / one.of) for one in LISTS]
    assert f"and {min(shares)} to {max(shares)}% of those in lists" in text


@pytest.mark.one_in(160)
@pytest.mark.parametrize("bug", LISTED, ids=[bug.issue for bug in LISTED])
def test_a_quick_run_notices(bug: Bug) -> None:
    seen = look(bug)
    assert not seen.accused, seen.accused[0]
    for examples, seed in () if TABLE.versions == _versions() else MORE:
        if seen.noticed:
            break
        seen = look(bug, examples, seed, twin=False)
    assert seen.noticed, f"{bug.issue} is no longer noticed: touched {seen.touched} of {seen.drawn}"


@pytest.mark.one_in(30)
@pytest.mark.parametrize("bug", HANDED, ids=[bug.issue for bug in HANDED])
def test_the_input_of_the_report_fails(bug: Bug) -> None:
    """Whatever a run draws, the judge notices the bug when it is handed the report's input."""
    seen = handed(bug)
    assert seen is not None
    assert not seen.accused, seen.accused[0]
    assert seen.touched, f"{bug.issue}: the emulation does not show in the report's own input"
    assert seen.noticed, f"{bug.issue}: judged as {dict(seen.forgiven)}"


@pytest.mark.nightly
@pytest.mark.parametrize("bug", BUGS, ids=[bug.issue for bug in BUGS])
def test_many_cases_notice_and_accuse_nothing_healthy(bug: Bug) -> None:
    seen = look(bug, TABLE.noticed(bug) or 200)
    assert not seen.accused, seen.accused[0]
    assert seen.noticed or not TABLE.noticed(bug), f"{bug.issue} is no longer noticed"


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("torch", "hypothesis")}
