"""Failures in groups of operator × backend × cause: no backend and no fault hides another, and
drawn and minimized cases keep their own numbers."""

from __future__ import annotations

import io
from dataclasses import replace

from consistency.core.model import Cause, Evidence, Result
from consistency.report.failure_groups import Failures
from consistency.report.terminal import Screen
from tests.diagnose.test_cause_vote import failing


def found(*results: Result) -> Failures:
    failures = Failures()
    for result in results:
        failures.add(result)
    return failures


def test_a_group_is_one_cause_on_one_backend() -> None:
    other = [replace(failing("strides-ignored"), backend="other") for _ in range(3)]
    (groups,) = found(*[failing("terms-dropped")] * 5, *other).by_operator()
    assert [(g.backend, g.elected.name, g.cases) for g in groups] == [
        ("mine", "terms-dropped", 5),
        ("other", "strides-ignored", 3),
    ]


def test_the_worst_result_of_a_group_is_one_with_its_cause() -> None:
    stray = replace(failing("negated", 1), metrics={"rho_max": 1e9})
    ((group,),) = found(stray, *[failing("terms-dropped")] * 5).by_operator()
    assert (group.worst.cause, group.headed.cause, group.cases) == (*["terms-dropped"] * 2, 6)
    assert stray in group.results


def test_a_cause_that_is_not_elected_is_not_told() -> None:
    ((group,),) = found(failing("negated", 1)).by_operator()
    assert group.headed.cause == ""


def test_forward_and_backward_of_one_cause_are_one_group() -> None:
    back = replace(failing("terms-dropped"), direction="backward")
    ((group,),) = found(failing("terms-dropped"), failing("terms-dropped"), back).by_operator()
    assert (group.elected.agreeing, group.cases, len(group.results)) == (3, 3, 2)


def test_what_is_wrong_forward_leads() -> None:
    back = [replace(failing("scaled"), direction="backward")] * 9
    (groups,) = found(*back, failing("terms-dropped", 8)).by_operator()
    assert [group.elected.name for group in groups] == ["terms-dropped", "scaled"]


def test_a_case_too_large_for_a_diagnosis_joins_the_fault_of_its_operator() -> None:
    large = replace(failing(), evidence=None, direction="backward")
    ((group,),) = found(failing("terms-dropped"), large).by_operator()
    assert (group.elected.name, group.cases, len(group.results)) == ("terms-dropped", 1, 2)
    ((alone,),) = found(large).by_operator()
    assert (alone.elected.cause, alone.cases) == (None, 1)


def test_numbers_of_the_smallest_case_have_a_line_of_their_own() -> None:
    screen = Screen(stream=(stream := io.StringIO()))
    drawn = replace(failing("terms-dropped"), metrics={"rho_max": 900.0}, explanation="900 × b")
    cause = Cause("terms-dropped", "w", 1.0)
    small = replace(
        failing("terms-dropped", 2), metrics={"rho_max": 3.0}, explanation="3 × b",
        evidence=Evidence("divergent", cause=cause),
    )  # fmt: skip
    for result in (drawn, drawn):
        screen.summary.add(result)
    screen.summary.shrunk(small)
    screen.closing(1.0)
    lines = stream.getvalue().splitlines()
    (head,) = [line for line in lines if line.startswith("✗ exp")]
    assert "900" in head
    assert "  small:   divergent: 3 × b" in lines
    assert "  cause:   terms-dropped words explains 100%: 2 of 2 cases" in lines
    assert not any("900" in line and "3 ×" in line for line in lines)


def test_a_minimized_case_of_another_cause_is_not_shown() -> None:
    failures = found(*[failing("terms-dropped")] * 5)
    failures.shrunk(failing("negated", 1))
    ((group,),) = failures.by_operator()
    assert group.smallest is None


def test_a_measurement_on_all_cases_does_not_make_an_operator_the_worst() -> None:
    measured = replace(
        failing(dtype="float64", verdict="precision-scaling"), comparison=None, metrics={}
    )
    other = failing("terms-dropped")
    assert other.case is not None
    other = replace(other, case=replace(other.case, operator="log"), metrics={"rho_max": 10.0})
    order = found(failing("terms-dropped"), measured, other).by_operator()
    assert [groups[0].operator for groups in order] == ["log", "exp"]
