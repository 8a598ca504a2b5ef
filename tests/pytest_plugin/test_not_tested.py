"""A session in which nothing was tested, or not on a backend that was asked for, is not green."""

# ruff: noqa: F811 - a parameter of the name of the fixture
from __future__ import annotations

import pytest
import torch

import consistency
from consistency.pytest_plugin.not_tested import OPTION
from tests.pytest_plugin.test_plugin import SMALL, SUITE, project  # noqa: F401 - project is a fixture

FORWARD = ("--directions", "forward")
ABSENT = (
    "consistency: 'absent' was asked for, and it was not tested (unavailable: the cable is not "
    "plugged in; 1 item)"
)
ALLOWED = f"; where that is acceptable, add {OPTION}"
UNSELECTED = "consistency: 'one' was asked for, and none of its items was selected"
NOTHING = "consistency: nothing was tested (unsupported: numpy computes no gradients; 1 item)"
BACKWARD = ("--directions", "backward")


def told(result: pytest.RunResult) -> list[str]:
    """The lines about what was not tested; one of them is the last line of all."""
    lines = [line for line in result.outlines if line.startswith("consistency: ")]
    assert not lines or result.outlines[-1] == lines[-1]
    return lines


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param(("--backends", "users.py:Absent", *FORWARD), ABSENT, id="alone"),
        pytest.param(("--backends", "cpu,users.py:Absent", *FORWARD), ABSENT, id="beside another"),
        pytest.param(("--consistency-backends", "cpu,users.py:Absent", *FORWARD), ABSENT,
                     id="long option"),
        pytest.param(("--backends", "cpu,users.py:One", "-k", "not one"), UNSELECTED, id="-k"),
        pytest.param(("--backends", "numpy", *BACKWARD), NOTHING, id="unsupported"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("allowed", [False, True], ids=["", "allowed"])
def test_not_green(
    project: pytest.Pytester, arguments: tuple[str, ...], line: str, allowed: bool
) -> None:
    more = (OPTION,) if allowed else ()
    result = project.runpytest_inprocess(*SUITE, *SMALL, *arguments, *more)
    assert told(result) == [line if allowed else line + ALLOWED]
    assert result.ret == (pytest.ExitCode.OK if allowed else pytest.ExitCode.TESTS_FAILED)
    assert not result.parseoutcomes().get("failed")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("--backends", "cpu,numpy"), id="partly unsupported"),
        pytest.param(("--backends", "cpu,numpy", *BACKWARD), id="unsupported, as in run"),
        pytest.param(("--backends", "cpu,users.py:Absent", "--collect-only"), id="collected only"),
        pytest.param(("--backends", "cpu,users.py:One", "-k", "forward"), id="-k of both"),
        pytest.param((*FORWARD,), id="none named"),
    ],
)
def test_green(project: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    result = project.runpytest_inprocess(*SUITE, *SMALL, *arguments)
    assert told(result) == []
    assert result.ret == pytest.ExitCode.OK


def test_where_nothing_is_left_it_says_why_too(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess(*SUITE, *SMALL, "--backends", "cpu", "-k", "nosuch")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert told(result) == ["consistency: 'cpu' was asked for, and none of its items was selected"]


def test_a_single_item_by_its_id_is_enough(project: pytest.Pytester) -> None:
    from consistency.suite import test_operators

    item = f"{test_operators.__file__}::test_operator[exp-float32-forward-cpu]"
    result = project.runpytest_inprocess(
        item, "-p", "no:cacheprovider", *SMALL, "--backends", "cpu,users.py:One"
    )
    assert (told(result), result.ret) == ([], pytest.ExitCode.OK)


def test_tests_of_ones_own_do_not_need_the_suite(project: pytest.Pytester) -> None:
    """The options may stand in a project's configuration."""
    project.makepyfile(test_own="def test_mine():\n    pass\n")
    project.makeini("[pytest]\naddopts = --consistency-backends users.py:Absent")
    result = project.runpytest_inprocess("test_own.py", "-p", "no:cacheprovider")
    assert (told(result), result.ret) == ([], pytest.ExitCode.OK)


@pytest.mark.nightly
def test_as_processes(project: pytest.Pytester) -> None:
    """What continuous integration sees; also where pytest writes nothing else."""
    arguments = (*SUITE, *SMALL, *FORWARD, "--backends", "users.py:Absent")
    result = project.runpytest_subprocess(*arguments, "-qq", "--no-summary")
    assert result.ret == 1
    assert told(result) == [ABSENT + ALLOWED]
    silent = project.runpytest_subprocess(*arguments, "-p", "no:terminal")
    assert silent.ret == 1
    assert silent.errlines[-1] == ABSENT + ALLOWED


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        (("cpu,users.py:Absent",), ABSENT),
        (("cpu,users.py:One", "-k", "cpu"), UNSELECTED),
    ],
)
def test_on_several_workers(chosen: tuple[str, ...], reason: str, project: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    found = project.runpytest_subprocess(*SUITE, *SMALL, *FORWARD, "-n", "2", "--backends", *chosen)
    assert (told(found), found.ret) == ([reason + ALLOWED], 1)


def test_assert_consistent_on_a_backend_that_is_not_there() -> None:
    class Absent(consistency.Backend):
        name = "absent"

        def why_unavailable(self) -> str:
            return "the cable is not plugged in"

    for chosen in ([Absent()], ["cpu", Absent()]):
        with pytest.raises(consistency.Divergence) as caught:
            consistency.assert_consistent(torch.exp, torch.rand(30), backends=chosen)
        first, *_, last = str(caught.value).splitlines()
        assert first == (
            "exp · float32 · forward · absent   unavailable: the cable is not plugged in"
        )
        assert last == "  nothing was tested there: leave it out of backends=…, or skip the test"
        assert "again:" not in str(caught.value)
