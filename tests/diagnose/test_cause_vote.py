"""The vote on the cause of many failing cases: small cases weigh little, and nothing is guessed
from one element."""

from __future__ import annotations

from typing import Any

import pytest

from consistency.core.model import Case, Cause, Comparison, Evidence, Measured, Result
from consistency.core.recipe import TensorRecipe
from consistency.core.verdict import Verdict
from consistency.diagnose.cause_vote import CauseVotes, Elected, ballot_of, representative


def failing(
    cause: str = "", elements: int = 64, rivals: tuple[str, ...] = (), **more: Any
) -> Result:
    """A divergent result with so many wrong elements, and the cause that its diagnosis found."""
    case = Case("exp", more.pop("dtype", "float32"), (TensorRecipe((elements,), "float32"),))
    found = Cause(cause, f"{cause} words", 1.0) if cause else None
    outputs = (Measured("out/0", "float32", (elements,), elements, differing=elements),)
    return Result(
        case, "mine", "forward", Verdict(more.pop("verdict", "divergent")), "", {"rho_max": 9.0},
        comparison=Comparison("ok", outputs), output="out/0",
        evidence=Evidence("divergent", cause=found, rivals=rivals), **more,
    )  # fmt: skip


def elected(*results: Result) -> list[Elected]:
    votes = CauseVotes()
    for result in results:
        votes.add(result)
    return votes.elect()


def test_many_elements_outvote_a_case_of_one() -> None:
    cases = [failing("negated", 1), *[failing("transposed")] * 17, *[failing()] * 4]
    (one,) = elected(*cases)
    assert (one.name, one.agreeing, one.cases) == ("transposed", 17, 22)
    assert str(one) == "transposed words explains 100%: 17 of 22 cases"


def test_one_element_is_no_cause() -> None:
    (one,) = elected(failing("transposed", 1))
    assert (one.cause, one.cases, str(one)) == (None, 1, "")


def test_many_cases_of_one_element_are_one() -> None:
    (one,) = elected(*[failing("transposed", 1)] * 6)
    assert (one.name, one.agreeing) == ("transposed", 6)


def test_a_case_admits_what_explains_it_as_well() -> None:
    """Small cases that several faults explain do not vote against the one of the large cases."""
    small = failing("negated", 4, rivals=("transposed",))
    (one,) = elected(small, small, failing("transposed"))
    assert (one.name, one.agreeing) == ("transposed", 3)


def test_two_faults_are_two_causes() -> None:
    first, second = elected(*[failing("strides-ignored")] * 10, *[failing("terms-dropped")] * 4)
    assert (first.name, first.agreeing, first.cases) == ("strides-ignored", 10, 10)
    assert (second.name, second.agreeing, second.cases) == ("terms-dropped", 4, 4)


def test_a_fault_that_would_change_every_case_must_explain_most() -> None:
    assert elected(failing("zero"), failing(), failing())[0].cause is None
    assert elected(failing("one-pass-variance"), failing(), failing())[0].agreeing == 1
    assert elected(failing("zero"), failing("zero"), failing())[0].name == "zero"


def test_an_experiment_admits_the_hypotheses_that_are_forms_of_it() -> None:
    (one,) = elected(failing("depends-on-layout"), failing("strides-ignored", 8))
    assert (one.name, one.agreeing) == ("strides-ignored", 2)
    (other,) = elected(failing("depends-on-layout"), failing())
    assert other.name == "depends-on-layout"


def test_what_was_not_diagnosed_has_no_vote() -> None:
    large = Result(**{**vars_of(failing()), "evidence": None})
    assert ballot_of(large).weight == 0.0
    assert elected(large, failing("transposed"))[0].name == "transposed"


def vars_of(result: Result) -> dict[str, Any]:
    return {name: getattr(result, name) for name in result.__dataclass_fields__}


@pytest.mark.parametrize(
    ("causes", "chosen"), [(["negated", "zero", "zero"], 1), (["", "zero", "zero"], 1)]
)
def test_the_case_that_is_made_smaller_has_the_elected_cause(
    causes: list[str], chosen: int
) -> None:
    results = [failing(cause, 1 if cause == "negated" else 64) for cause in causes]
    assert representative(results) is results[chosen]


def test_without_an_elected_cause_the_representative_has_none() -> None:
    assert representative([failing("negated", 1)]).cause == ""
