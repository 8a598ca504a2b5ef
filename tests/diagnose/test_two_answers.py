"""A fault that float64 shares with the tested kernel is noticed by a case's companions; nobody who
is right is accused, and operators whose results legitimately differ are not."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest
import torch

from consistency import backends, operators
from consistency.core.detail import Contradiction, ReferenceWrong, Unproved
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe
from consistency.diagnose import two_answers
from consistency.diagnose.diagnosis_budget import DiagnosisBudget
from consistency.diagnose.evaluation import evaluate
from consistency.generate.materialize import case_of, prepare
from consistency.generate.search import batch
from consistency.judge.tolerances import load
from consistency.reference import Reference, quiet
from consistency.reference.high_precision import EACH
from consistency.reference.invariances import RELATIONS, companions, relations
from consistency.reference.invariances.page import PAGE, page
from consistency.reference.invariances.relations import FILE
from consistency.reference.proofs import Proofs
from consistency.report import repro_script
from tests.support.paths import ROOT
from tests.support.shared_faults import (
    Fault,
    ForgottenConjugate,
    SharedFault,
    disturbed_item,
    misread_strides,
    off_by_one,
    wrong_tail,
)
from tests.support.wrong_float64 import Honest

RULES = replace(load(), expectations=())
PLANTED: dict[str, tuple[str, str, str, Fault | None, str]] = {
    "strides": ("exp", "exp", "float32", misread_strides, "layout"),
    "strides in float64": ("exp", "exp", "float64", misread_strides, "layout"),
    "tail": ("sin", "sin", "float32", wrong_tail, "length"),
    "tail in float64": ("sin", "sin", "float64", wrong_tail, "length"),
    "tail of a sum of two": ("add", "add", "float16", wrong_tail, "length"),
    "conjugate": ("mul", "mul", "complex64", None, "layout"),
    "conjugate in float64": ("mul", "mul", "complex128", None, "layout"),
    "batch": ("bmm", "bmm", "float32", disturbed_item, "batch"),
    "batch in float64": ("bmm", "bmm", "float64", disturbed_item, "batch"),
    "integers": ("bitwise_not", "bitwise_not", "int32", off_by_one, "layout"),
    "shapes": ("nonzero", "nonzero", "float32", misread_strides, "layout"),
    "sums of integers": ("cumsum", "cumsum", "int64", off_by_one, "layout"),
}
# Rounding in another order, random numbers, statistics of a batch, results whose shape depends on
# the numbers, observed quantities, writes.
HEALTHY = (
    "cumsum", "softmax", "matmul", "nn.functional.conv2d", "nn.functional.linear", "bmm", "sum",
    "nn.functional.dropout", "bernoulli", "nn.functional.batch_norm", "nn.functional.layer_norm",
    "unique", "nonzero", "masked_select", "linalg.svd", "linalg.solve", "fft.fft", "topk", "sort",
    "copy_", "add_", "exp.out", "__setitem__", "nn.functional.embedding", "lstm", "where", "pow",
    "nn.functional.scaled_dot_product_attention", "isin", "einsum", "cat", "_foreach_add_",
)  # fmt: skip
CASES = 10


def with_companion(operator: str, dtype: str, relation: str) -> Iterator[Case]:
    """Drawn cases that have a companion of this relation."""
    declared = operators.get(operator)
    for case in batch(declared, dtype, 40):
        materials = prepare(case)
        reference = Reference(declared, materials, "forward")
        found = companions(declared, materials, "forward", reference.outcome.outputs)
        if any(companion.relation == relation for companion in found):
            yield case


def judged(case: Case, names: tuple[str, ...] = ("cpu",), against: str = EACH) -> list[Result]:
    """What two of torch's own backends, or others, get for a case."""
    present = [Honest() if name == "honest" else backends.resolve(name) for name in names]
    return evaluate(
        case,
        present,
        RULES,
        directions=("forward",),
        diagnosis_budget=DiagnosisBudget(),
        against=against,
    )


def planted(name: str) -> AbstractContextManager[object]:
    """torch with this fault; None is the forgotten conjugate."""
    _, aten, _, fault, _ = PLANTED[name]
    return ForgottenConjugate([aten]) if fault is None else SharedFault([aten], fault)


def noticed(name: str, against: str = EACH) -> Iterator[tuple[Case, Result]]:
    """The cases in which a planted fault fails, with the CPU's result."""
    operator, _, dtype, _, relation = PLANTED[name]
    for case in with_companion(operator, dtype, relation):
        with planted(name):
            (result,) = judged(case, against=against)
        if result.verdict.fails:
            yield case, result


@pytest.mark.parametrize("name", PLANTED)
def test_a_fault_that_float64_shares_is_noticed_on_the_cpu_alone(name: str) -> None:
    _, result = next(noticed(name))
    assert "gives two answers for the same numbers" in result.explanation
    if result.dtype in ("float64", "complex128"):
        assert isinstance(result.detail, ReferenceWrong)
    else:
        assert result.detail == Contradiction(PLANTED[name][-1])
        assert result.evidence is not None
        assert result.evidence.cause is not None
        assert result.evidence.cause.name.startswith("depends-on-")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PLANTED)
def test_others_are_not_accused_of_it(name: str) -> None:
    operator, _, dtype, _, relation = PLANTED[name]
    for case in list(with_companion(operator, dtype, relation))[:CASES]:
        with planted(name):
            results = judged(case, ("cpu", "numpy", "honest"))
        assert [r for r in results if r.verdict.fails and r.backend != "cpu"] == []


@pytest.mark.parametrize("name", ["strides", "tail", "conjugate", "batch", "integers"])
def test_without_any_proof_two_answers_of_the_backend_itself_are_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Proofs, "settle", lambda *args, **kwargs: False)
    # Which cases are looked at depends on their digest; all of them here.
    monkeypatch.setattr(two_answers, "ONE_CASE_IN", 1)
    case, result = next(noticed(name, "float64"))
    assert result.proof is None
    assert result.detail == Contradiction(PLANTED[name][-1])
    with planted(name):
        results = judged(case, ("cpu", "honest"), "float64")
    assert {r.backend: r.verdict.fails for r in results} == {"cpu": True, "honest": False}


def test_who_gives_one_wrong_answer_is_not_accused_without_proof(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Wrong(Honest):
        """Off by one percent, whatever the layout."""

        name = "wrong"

        def call(self, operator, args, kwargs):  # type: ignore[no-untyped-def]
            return super().call(operator, args, kwargs) * 1.01

    monkeypatch.setattr(Proofs, "settle", lambda *args, **kwargs: False)
    case, _ = next(noticed("strides"))
    with planted("strides"):
        (result,) = evaluate(case, [Wrong()], RULES, directions=("forward",), against=EACH)
    assert isinstance(result.detail, Unproved)
    assert "torch's float64 gives two answers for the same numbers" in result.explanation


@pytest.mark.one_in(16)
@pytest.mark.parametrize("operator", HEALTHY)
def test_healthy_operators_give_one_answer(operator: str) -> None:
    declared = operators.get(operator)
    for dtype in declared.dtypes:
        for case in batch(declared, dtype, CASES, seed=3):
            for direction in declared.directions:
                with quiet():
                    reference = Reference(declared, prepare(case), direction)
                    found = two_answers.two_answers(reference, RULES)
                assert found is None, (found.words, case.line)


def test_one_case_in_five_is_looked_at_whoever_fails() -> None:
    exp = operators.get("exp")
    cases = [Case("exp", "float32", (TensorRecipe((n,), "float32"),)) for n in range(1, 400)]
    looked_at = sum(two_answers.is_checked(case, "spot", exp) for case in cases)
    assert len(cases) // 8 < looked_at < len(cases) // 3
    assert all(two_answers.is_checked(case, EACH, exp) for case in cases)
    derivative = operators.get("vjp.exp")
    assert all(two_answers.is_checked(case, "spot", derivative) for case in cases)


def test_every_operator_is_held_to_a_relation_or_says_why_not() -> None:
    for name in operators.registry():
        found = relations(name)
        assert set(found) == set(RELATIONS), f"run: python tools/invariances.py {name}"
    known = {json.loads(line)["operator"] for line in FILE.read_text("utf-8").splitlines()}
    assert known == set(operators.registry()), "run: python tools/invariances.py"


def test_companions_leave_torch_s_generators_alone() -> None:
    before = torch.get_rng_state()
    for case in with_companion("bmm", "float32", "batch"):
        judged(case)
        break
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PLANTED)
def test_the_script_of_such_a_failure_fails_and_passes_once_it_is_mended(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["repro.py"])
    _, result = next(noticed(name))
    with planted(name):
        text = repro_script.script(result, spec="cpu")
        with pytest.raises(AssertionError):
            exec(compile(text, "repro.py", "exec"), {"__name__": "__main__"})
    exec(compile(text, "repro.py", "exec"), {"__name__": "__main__"})


def test_the_issue_tells_the_relation() -> None:
    _, result = next(noticed("strides"))
    with planted("strides"):
        text = repro_script.issue(result, spec="cpu")
    assert "the layout of the inputs" in text


def test_the_page_is_the_file_s() -> None:
    rows = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
    shown = (ROOT / "docs" / PAGE).read_text("utf-8")
    assert shown == page(rows), "run: python tools/invariances.py"


def test_a_difference_far_below_the_tested_dtype_leaves_the_cause_to_the_diagnosis() -> None:
    numbers = 4096 + torch.rand(2, 6, 5, 5, generator=torch.Generator().manual_seed(0)) * 2 - 1
    image = numbers.contiguous(memory_format=torch.channels_last)
    (result,) = judged(case_of("nn.functional.group_norm", "float32", (image, 2), {}))
    assert "one-pass variance explains 100%" in result.explanation
    assert "two answers" not in result.explanation
    wide = case_of("nn.functional.group_norm", "float64", (image.double(), 2), {})
    assert "torch's float64 gives two answers" in judged(wide)[0].explanation


def test_which_of_equal_numbers_takes_the_gradient_is_no_second_answer() -> None:
    x = torch.tensor([-0.5, 0.25], dtype=torch.float64).expand(17, 2)
    case = case_of("quantile", "float64", (x, 0.421875), {"dim": 0}, 8176)
    with quiet():
        reference = Reference(operators.get("quantile"), prepare(case), "backward")
        assert two_answers.two_answers(reference, RULES) is None


def test_what_is_looked_for_among_others_is_not_asked_for_alone() -> None:
    """isin of an element and the other elements of the same place: every backend was accused."""
    images = [
        TensorRecipe((2, 5, 4, 3), "float32", ("integers", -4, 4), stop) for stop in (9000, 9500)
    ]
    destination = TensorRecipe((2, 5, 4, 3), "bool", ("integers", 0, 1), 9900)
    case = Case("isin.out", "float32", (destination, *images), {}, 0)
    (result,) = evaluate(
        case, [backends.resolve("cpu")], load(), operator=operators.get("isin.out"),
        directions=("forward",),
    )  # fmt: skip
    assert result.verdict.passes, result.explanation
