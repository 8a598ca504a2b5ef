"""The benchmark of causes on recordings: what it proves from recorded numbers, how it counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import consistency
from benchmarks.recorded_causes import Group, Groups, main, table
from tests.support.recorded_causes import WORDS
from tests.support.recorded_errors import explained
from tools import recorded_groups


class Losing(consistency.Backend):
    """Loses what is written to a view, and the gradient of abs."""

    name = "losing"

    def call(self, operator: consistency.Operator, args: Any, kwargs: Any) -> Any:
        if operator.name == "add_" and args[0].storage_offset():
            return args[0].clone().add_(*args[1:], **kwargs)
        if operator.name == "abs":
            return args[0].abs().detach() + 0.0 * args[0]
        return super().call(operator, args, kwargs)


def recorded(backend: Any, folder: Path) -> str:
    consistency.record(["add_", "abs", "mul"], backend, out=folder, dtypes=["float32"], examples=8)
    return str(folder)


def test_the_true_cause_is_proved_and_the_named_one_is_right(tmp_path: Path, capsys: Any) -> None:
    folder = recorded(Losing(), tmp_path / "losing")
    groups = Groups()
    groups.add(folder)
    assert groups.right(("add_", "forward", "divergent")) == {"lost-write"}
    assert "zero" in groups.right(("abs", "backward", "divergent"))
    assert groups.named(("add_", "forward", "divergent")) == ("lost-write", True)
    assert {operator for operator, _, _ in groups.votes} == {"add_", "abs"}
    assert main([folder]) == 0
    said = capsys.readouterr().out
    assert "wrong 0 (0.0%)" in said
    assert "WRONG" not in said


def test_a_healthy_backend_has_no_groups(tmp_path: Path) -> None:
    groups = Groups()
    groups.add(recorded("cpu", tmp_path / "healthy"))
    assert not groups.votes


@pytest.mark.parametrize(("operator", "direction", "dtype", "said", "shapes", "does"), [
    ("mm", "forward", "float32", "mm: the process ended (SIGSEGV)", ("[0, 4]", "[4, 4]"),
     "death by a tensor without elements"),
    ("hsplit", "forward", "int64", "hsplit: the process ended (SIGSEGV)", ("[5, 48, 8]",),
     "death by a later part without elements"),
    ("cumsum", "backward", "float32", "cumsum: the process ended (SIGSEGV)", ("[10, 20]",),
     "death by a negative `dim`, in the gradient"),
    ("isnan", "forward", "int64", "RuntimeError: Unknown error -2147024809", ("[]",),
     "integers have no kernel"),
    ("isnan", "forward", "float32", "RuntimeError: Unknown error -2147024809", ("[]",), ""),
    ("mm", "forward", "float32", "mm: the process ended (SIGSEGV)", ("[10, 4] strides [0, 1]",),
     ""),
])  # fmt: skip
def test_an_error_is_explained_by_its_conditions(
    operator: str, direction: str, dtype: str, said: str, shapes: tuple[str, ...], does: str
) -> None:
    assert explained(operator, direction, dtype, said, shapes) == does


def test_every_group_is_in_the_table_and_an_unexplained_one_says_so(tmp_path: Path) -> None:
    folder = recorded(Losing(), tmp_path / "losing")
    found: dict[str, dict[Group, int]] = {}
    for result, proofs in recorded_groups.failing(folder):
        group = result.operator, result.direction, str(result.verdict.value)
        found.setdefault(recorded_groups.explanation(result, proofs), {})[group] = 1
        unknown = replace(result, case=replace(result.case, operator="cos"))
        assert recorded_groups.explanation(unknown, frozenset()) == recorded_groups.UNEXPLAINED
    assert ("add_", "forward", "divergent") in found[WORDS["lost-write"]]
    assert ("abs", "backward", "divergent") in found[WORDS["zero"]]
    lines = recorded_groups.table(found)
    page = f"a\n{recorded_groups.BEGIN}\nold\n{recorded_groups.END}\nb\n"
    assert recorded_groups.written(page, lines) == page.replace("old", "\n".join(lines))
    assert any("`abs` ∇" in line for line in lines)


def test_the_page_explains_every_group() -> None:
    assert "; 0 groups not explained." in recorded_groups.PAGE.read_text(encoding="utf-8")


def test_rows_of_the_table_go_by_operator_and_direction() -> None:
    assert table(("log1p.out", "forward", "divergent")) == {"evaluated-otherwise"}
    assert table(("sort", "backward", "divergent")) == {"indices-ignored"}
    assert table(("matmul", "forward", "divergent")) == frozenset()
