"""What a diagnosis concludes where nothing reproduces an error directly: from the case with room
behind its inputs, from float64 and from a search that came to its end, and nothing from less."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import consistency
from consistency import operators
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe
from consistency.diagnose import attribution
from consistency.diagnose.cause_vote import CauseVotes, ballot_of
from consistency.diagnose.evaluation import DiagnosisBudget, evaluate
from consistency.judge import tolerances
from tests.support.catalog.memory import as_contiguous
from tests.support.catalog.precision import toward_zero

Called = Callable[[consistency.Operator, Sequence[Any], Mapping[str, Any]], Any]


class Mine(consistency.Backend):
    """A backend that calls ``how`` in place of every operator."""

    name = "mine"
    keeps_contract = False

    def __init__(self, how: Called) -> None:
        self.how = how

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return self.how(operator, args, kwargs)


def judged(case: Case, how: Called) -> Result:
    (result,) = evaluate(
        case, [Mine(how)], tolerances.load(), directions=("forward",),
        operator=operators.get(case.operator), diagnosis_budget=DiagnosisBudget(),
    )  # fmt: skip
    return result


# --- expanded inputs

# Base 8 × 24, of which every other column is expanded to 7 × 8 × 12: read as if contiguous, it
# ends beyond its memory.
EXPANDED = Case(
    "sum",
    "float32",
    (
        TensorRecipe(
            (8, 24), "float32", ("uniform", -4.0, 4.0), 300,
            (("slice", 1, 0, None, 2), ("unsqueeze", 0), ("expand", 7, 8, 12)),
        ),
        0,
    ),
)  # fmt: skip


def misread(operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return operator(*(as_contiguous(a) if isinstance(a, Tensor) else a for a in args), **kwargs)


def off_if_strided(
    operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    return operator(*args, **kwargs) * (1.0 if args[0].is_contiguous() else 1.01)


def test_an_expanded_input_that_is_misread_is_named() -> None:
    result = judged(EXPANDED, misread)
    assert result.cause == "strides-ignored", result.explanation
    assert result.share > 0.99


def test_another_fault_of_strided_inputs_stays_what_the_experiment_shows() -> None:
    assert judged(EXPANDED, off_if_strided).cause in ("depends-on-layout", "scaled")

    def off_at_random(
        operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        found = operator(*args, **kwargs)
        noise = torch.rand(found.shape, generator=torch.Generator().manual_seed(1))
        return found if args[0].is_contiguous() else found + noise

    assert judged(EXPANDED, off_at_random).cause == "depends-on-layout"


# --- sums


def product_case(columns: int, values: tuple[Any, ...]) -> Case:
    """``mm`` of 31 × 2 and 2 × ``columns``."""
    return Case(
        "mm",
        "float32",
        (
            TensorRecipe((31, 2), "float32", values, 5000),
            TensorRecipe((2, columns), "float32", values, 9000),
        ),
    )


def in_steps(step: Callable[[Tensor], Tensor]) -> Called:
    """Products added one by one, each sum brought to float32 by ``step``."""

    def call(operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        a, b = args[0].double(), args[1].double()
        total = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64)
        for k in range(a.shape[1]):
            total = step(total + a[:, k : k + 1] @ b[k : k + 1])
        return total.to(args[0].dtype)

    return call


@pytest.mark.parametrize("values", [("uniform", 0.5, 2.0), ("uniform", 2e-20, 4e-20)])
def test_a_truncating_accumulator_is_named_among_subnormal_numbers_too(
    values: tuple[Any, ...],
) -> None:
    """The products of the second case are subnormal, with fewer digits to truncate to."""
    result = judged(product_case(64, values), in_steps(toward_zero))
    assert result.cause == "truncating-accumulator", result.explanation
    assert "same error" not in result.explanation  # of float64, in which it truncates to float32
    healthy = judged(product_case(64, values), in_steps(lambda total: total.float().double()))
    assert healthy.verdict.passes, healthy.explanation


def test_float64_in_name_only_blames_no_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum that truncates in an order that no hypothesis replays, and that does so when it is
    asked for float64, too."""

    def call(operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        order = torch.randperm(args[0].shape[1], generator=torch.Generator().manual_seed(3))
        return in_steps(toward_zero)(operator, [args[0][:, order], args[1][order]], kwargs)

    numbers = ("uniform", -2.0, 2.0)
    tensors = [TensorRecipe(s, "float32", numbers, 9000) for s in ((16, 200), (200, 16))]
    case = Case("mm", "float32", tuple(tensors))
    result = judged(case, call)
    assert result.verdict.fails
    assert result.cause == "", result.explanation
    assert "same error" not in result.explanation
    monkeypatch.setattr("consistency.diagnose.experiments._in_name_only", lambda *_: False)
    assert judged(case, call).cause == "approximation"  # which float64 seems to show


def test_a_wrong_formula_in_float64_is_still_blamed() -> None:
    def call(operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        found = operator(*args, **kwargs)
        return found + 1e-3 * torch.sin(7.0 * found)

    result = judged(product_case(64, ("uniform", 0.5, 2.0)), call)
    assert result.cause == "approximation", result.explanation


def test_what_is_accused_within_its_budget_votes_for_what_accuses_it() -> None:
    tensors = [
        TensorRecipe(shape, "float32", ("uniform", 0.5, 2.0), stop)
        for shape, stop in (((7, 2), 5000), ((2, 33), 9000))
    ]
    result = judged(Case("mm", "float32", tuple(tensors)), in_steps(toward_zero))
    assert result.verdict.fails
    assert result.metrics["rho_max"] <= 1.0
    assert ballot_of(result).cause == "truncating-accumulator"
    votes = CauseVotes()
    votes.add(result)
    assert votes.elect()[0].name == "truncating-accumulator"


# --- searches


def test_a_search_without_time_concludes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """That no cause explains the error is known only when all have been tried: the formula is what
    is left then."""
    case, how = product_case(64, ("uniform", 0.5, 2.0)), in_steps(lambda total: total * 1.001)
    found: list[attribution.Explanations] = []
    original = attribution.explanations

    def hurried(context: attribution.AttributionContext, **options: Any) -> Any:
        found.append(original(context, -1.0, **options))
        return found[-1]

    assert judged(case, how).cause != ""
    monkeypatch.setattr("consistency.diagnose.diagnosis.explanations", hurried)
    result = judged(case, how)
    assert found == [attribution.Explanations(None, (), complete=False)]
    assert result.verdict.fails
    assert result.cause == "", result.explanation
