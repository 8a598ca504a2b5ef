"""The second source of cases: samples of PyTorch's operator database as literal recipes, judged
like everything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import consistency
from consistency.backends import resolve
from consistency.core.model import Case
from consistency.core.recipe import INLINE_BYTES, Literal, tensors
from consistency.engine import engine
from consistency.errors import RecipeError, Untestable, UsageError
from consistency.generate.calls import opinfo
from consistency.generate.calls.case_operator import operator_of
from consistency.generate.calls.generic_error import GENERIC, generically
from consistency.generate.materialize import KEPT_BEFORE_VIEW, literal, prepare
from consistency.storage.bundle import read_results
from consistency.storage.literals import LiteralStore, write_literals
from tests.support.commands import command

pytest.importorskip("expecttest", reason="PyTorch's operator database needs it")
pytest.importorskip("packaging", reason="PyTorch's operator database needs it")


def operator(name: str) -> consistency.Operator:
    return opinfo.select([name])[0]


def test_the_import_leaves_torch_as_it_was() -> None:
    opinfo.database()
    assert torch.get_default_dtype() == torch.float32
    assert not torch.backends.flags_frozen()  # type: ignore[no-untyped-call]
    enabled = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = enabled


def test_an_absent_database_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    opinfo.database.cache_clear()
    monkeypatch.setitem(
        __import__("sys").modules, "torch.testing._internal.common_methods_invocations", None
    )
    with pytest.raises(
        UsageError, match=r"PyTorch's operator database cannot be imported: .*; leave --source out"
    ):
        opinfo.database()
    answer = command("run exp --source opinfo --no-bundle")
    assert answer.exit_code == 2
    monkeypatch.undo()
    assert opinfo.database()


def test_the_same_seed_gives_the_same_cases() -> None:
    torch.manual_seed(1)
    first = [case.digest for case in operator("matmul").cases("float32", 6, 3)]  # type: ignore[misc]
    torch.manual_seed(2)
    assert [case.digest for case in operator("matmul").cases("float32", 6, 3)] == first  # type: ignore[misc]
    assert [case.digest for case in operator("matmul").cases("float32", 6, 4)] != first  # type: ignore[misc]
    assert len(set(first)) == 6


def test_generators_are_left_as_they_were() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    engine.draw(operator("nn.functional.linear"), "float32", 3, 0)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("tensor", [
    torch.arange(24.0).reshape(4, 6)[1:, ::2],
    torch.arange(3.0).expand(4, 3),
    torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).T,
    torch.tensor(3.5),
    torch.zeros(0, 3),
])  # fmt: skip
def test_layouts_are_kept(tensor: torch.Tensor) -> None:
    kept = literal(tensor, before=KEPT_BEFORE_VIEW)
    case = Case.from_line(Case("clone", "float32", (kept,)).line)
    (made,) = prepare(case).build().tensors
    assert torch.equal(made, tensor)
    assert (made.stride(), made.storage_offset()) == (
        tensor.stride(),
        min(tensor.storage_offset(), KEPT_BEFORE_VIEW),
    )


def test_what_needs_no_gradient_gets_none() -> None:
    """Whether the sample's tensor asked for a gradient is part of the literal."""
    recipe = Literal(b"\0" * 4, "float32", (1,), (1,), leaf=False)
    case = Case.from_line(Case("mul", "float32", (recipe, literal(torch.ones(1)))).line)
    assert [t.requires_grad for t in prepare(case).build(gradients=True).tensors] == [False, True]
    with pytest.raises(RecipeError, match="expected true or false"):
        Case.from_line(case.line.replace('"leaf":false', '"leaf":1'))


@pytest.mark.nightly
def test_declared_and_undeclared_operators() -> None:
    declared, other = operator("matmul"), operator("special.hermite_polynomial_h")
    assert declared.family == consistency.operators.get("matmul").family  # type: ignore[attr-defined]
    assert declared.error.magnitude == "products"
    if other.family == GENERIC:  # until somebody declares it
        assert other.error.magnitude == "normwise"
    moved = [
        o for o in opinfo.select() if o.family == GENERIC and o.name in ("view_copy", "alias_copy")
    ]
    assert {o.error.kind for o in moved} <= {"exact"}


@pytest.mark.parametrize(("name", "reason"), [
    ("new_empty_strided", "uninitialized"),
    ("uniform", "random"),
])  # fmt: skip
def test_what_is_not_tested_says_why(name: str, reason: str) -> None:
    found = operator(name)
    if found.family != GENERIC:
        pytest.skip("declared by now")
    cases, why = engine.draw(found, "float32", 5, 0)
    assert not cases
    assert reason in why or "writes to an argument" in why


def test_a_sample_function_that_raises_costs_its_own_operator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = next(e for e in opinfo.database() if e.name == "exp")
    monkeypatch.setattr(entry, "sample_inputs_func", lambda *args, **kwargs: 1 / 0)
    monkeypatch.setattr(entry, "reference_inputs_func", None)
    run = consistency.run(
        ["exp", "sin"], ["cpu"], ["float32"], ["forward"], examples=2, source="opinfo"
    )
    exp = [r for r in run.results if r.operator == "exp"]
    assert [r.verdict.value for r in exp] == ["inconclusive"]
    assert "sample_inputs of it cannot be made (ZeroDivisionError" in exp[0].explanation
    assert any(r.verdict.passes for r in run.results if r.operator == "sin")


@pytest.mark.nightly
def test_bundles_resume_and_repro(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(**more: Any) -> consistency.Run:
        return consistency.run(
            ["matmul", "cov"],
            ["cpu"],
            ["float32"],
            examples=4,
            source="opinfo",
            out=tmp_path / "b",
            **more,
        )

    first = run()
    assert {r.case.source for r in first.results} == {"opinfo"}
    assert not first.failures
    again = read_results(tmp_path / "b")
    assert [r.case for r in again] == [r.case for r in first.results]
    assert run(resume=True).results == first.results
    big = next(
        c
        for c in (r.case for r in first.results)
        if any(len(t.data) > INLINE_BYTES for t in tensors(c.args))
    )
    (tmp_path / "one").mkdir()
    write_literals(tmp_path / "one", big)
    (tmp_path / "one" / "case.json").write_text(big.line, encoding="utf-8")
    answer = command("repro {} --backend cpu --json", tmp_path / "one")
    assert answer.exit_code == 0, answer.output
    assert {json.loads(line)["case_id"] for line in answer.output.splitlines()} == {big.id}


def test_literals_are_found_by_their_digest_only(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        LiteralStore(tmp_path)["../../etc/passwd"]
    (tmp_path / "literals").mkdir()
    (tmp_path / "literals" / ("a" * 64 + ".safetensors")).write_bytes(b"nothing of the kind")
    with pytest.raises(RecipeError, match="cannot be read"):
        LiteralStore(tmp_path)["a" * 64]


def test_variants_are_told_apart() -> None:
    sources = {c.source for o in opinfo.select(["var"]) for c in engine.draw(o, "float32", 2, 0)[0]}
    assert sources == {"opinfo", "opinfo/unbiased"}
    case = Case("var", "float32", (literal(torch.ones(3)),), source="opinfo/unbiased")
    assert operator_of(Case.from_line(case.line)).name == "var"
    with pytest.raises(UsageError, match="has no 'var of_nothing' in its operator database"):
        operator_of(Case("var", "float32", source="opinfo/of_nothing"))
    with pytest.raises(UsageError, match="unknown source 'elsewhere'"):
        operator_of(Case("var", "float32", source="elsewhere"))


def test_calls_that_a_declaration_does_not_understand_are_judged_by_sensitivity() -> None:
    assert generically(operator("nn.functional.layer_norm")).error.magnitude == "normwise"
    with pytest.raises(Untestable, match="does not know arguments"):
        generically(operator("linalg.svd"))


def test_a_fault_is_found() -> None:
    class Wrong(consistency.Backend):
        name = "wrong"

        def call(self, operator: consistency.Operator, args: Any, kwargs: Any) -> Any:
            return super().call(operator, args, kwargs) * 1.001

    run = consistency.run(
        ["cov", "exp"], [Wrong(), "cpu"], ["float32"], ["forward"], examples=4, source="opinfo"
    )
    assert {r.operator for r in run.failures} == {"cov", "exp"}
    assert {r.backend for r in run.failures} == {"wrong"}
    assert resolve("cpu").name == "cpu"
