"""The judge on the catalog of faulty and of healthy backends: every decidable fault is noticed,
nothing healthy fails.

A fault that a few cases do not show is given more of them; what is still not noticed, or falsely
accused, is listed below with its reason, and an entry that is no longer true fails. The long form
(``-m nightly``) plays every row on 200 examples × 3 seeds.
"""

from __future__ import annotations

import functools

import pytest

from tests.support.catalog import FAULTS, HEALTHY, Fault, Row, groups
from tests.support.catalog.known import ACCUSED, MISSED, NOT_DRAWN
from tests.support.catalog.model import CAUSES
from tests.support.catalog.play import Played, play, told

EXAMPLES = 8
MORE = ((12, 1), (24, 2), (48, 3))  # (examples, seed), until the fault is noticed
OPERATORS = sorted({row.operator for row in (*FAULTS, *HEALTHY)})


@functools.cache
def played(operator: str) -> dict[str, Played]:
    """All rows of one operator on the same few cases."""
    found: dict[str, Played] = {}
    for rows in groups(row for row in (*FAULTS, *HEALTHY) if row.operator == operator).values():
        found |= play(rows, EXAMPLES)
    return found


def noticed(row: Fault, first: Played, more: tuple[tuple[int, int], ...]) -> tuple[bool, bool]:
    """Whether the fault changed anything, and whether a result failed, in the first cases or in
    ``more`` (examples, seed)."""
    touched, failing = bool(first.touched), bool(first.failing)
    for examples, seed in more:
        if failing:
            break
        found = play([row], examples, seed)[row.name]
        touched, failing = touched or bool(found.touched), bool(found.failing)
    return touched, failing


def test_the_catalog_is_large_and_its_names_are_its_own() -> None:
    rows = (*FAULTS, *HEALTHY)
    assert len({row.name for row in rows}) == len(rows)
    assert len(FAULTS) >= 200
    assert len(HEALTHY) >= 100
    assert len({row.operator for row in FAULTS}) >= 60
    assert {row.dtype for row in FAULTS} >= {"float32", "float64", "float16", "bfloat16", "int64"}
    assert {direction for row in FAULTS for direction in row.directions} == {"forward", "backward"}
    assert sum(not fault.decidable for fault in FAULTS) < len(FAULTS) / 50
    assert all(fault.why for fault in FAULTS if not fault.decidable)
    assert {cause for fault in FAULTS for cause in fault.causes} <= set(CAUSES)


def test_what_is_known_names_rows() -> None:
    assert set(MISSED) | set(NOT_DRAWN) <= {row.name for row in FAULTS if row.decidable}
    assert set(ACCUSED) <= {row.name for row in HEALTHY}
    assert not set(MISSED) & set(NOT_DRAWN)


@pytest.mark.one_in(64)
@pytest.mark.parametrize("operator", sorted({row.operator for row in FAULTS}))
def test_faults_are_noticed(operator: str) -> None:
    wrong = []
    for row in (row for row in FAULTS if row.operator == operator and row.decidable):
        known = MISSED.get(row.name) or NOT_DRAWN.get(row.name)
        touched, failing = noticed(row, played(operator)[row.name], MORE[: 1 if known else None])
        if not failing and not known:
            wrong.append(
                f"{row.name}: {'not noticed' if touched else 'changes no bit of any result'}"
            )
        if failing and known:
            wrong.append(f"{row.name}: noticed; strike it from what is known ({known})")
    assert not wrong, "\n".join(wrong)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("operator", sorted({row.operator for row in HEALTHY}))
def test_healthy_backends_are_left_in_peace(operator: str) -> None:
    for row in (row for row in HEALTHY if row.operator == operator and row.name not in ACCUSED):
        found = played(operator)[row.name]
        assert not found.failing, told(found)
        assert (
            not row.verdicts or {result.verdict.value for result in found.results} == row.verdicts
        ), row.name


@pytest.mark.one_in(16)
@pytest.mark.parametrize("operator", sorted({row.operator for row in FAULTS}))
def test_faults_are_planted_well(operator: str) -> None:
    """No fault is noticed only because its planter raises."""
    for row in (row for row in FAULTS if row.operator == operator and not row.raises):
        raised = played(operator)[row.name].raised
        assert not raised, f"{row.name}: {raised[0].explanation}\n{raised[0].case.line}"


@pytest.mark.parametrize(
    ("operators", "least"),
    [(OPERATORS[:3], 0.3), pytest.param(OPERATORS, 0.4, marks=pytest.mark.nightly, id="all")],
)
def test_healthy_backends_really_compute_otherwise(operators: list[str], least: float) -> None:
    rows = [row for row in HEALTHY if row.operator in operators]
    other = sum(bool(played(row.operator)[row.name].touched) for row in rows)
    assert other >= least * len(rows), (
        f"{other} of {len(rows)} healthy rows give other bits than torch"
    )


def _all(rows: list[Row]) -> list[Played]:
    return [found for seed in range(3) for found in play(rows, 200, seed).values()]


@pytest.mark.nightly
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_row_on_many_cases(operator: str) -> None:
    known = {**MISSED, **NOT_DRAWN, **ACCUSED}
    every = [
        row for row in (*FAULTS, *HEALTHY) if row.operator == operator and row.name not in known
    ]
    wrong = []
    for rows in groups(every).values():
        found = _all(rows)
        for row in rows:
            mine = [one for one in found if one.row is row]
            failing = any(one.failing for one in mine)
            if isinstance(row, Fault) and row.decidable and not failing:
                wrong.append(f"{row.name}: not noticed")
            elif not isinstance(row, Fault) and failing:
                wrong += [told(one) for one in mine if one.failing]
    assert not wrong, "\n".join(wrong)
