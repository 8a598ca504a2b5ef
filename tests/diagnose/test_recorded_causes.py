"""The benchmark of causes on recordings: what it proves from recorded numbers, how it counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import consistency
from benchmarks.recorded_causes import Groups, main, table


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


def test_rows_of_the_table_go_by_operator_and_direction() -> None:
    assert table(("log1p.out", "forward", "divergent")) == {"evaluated-otherwise"}
    assert table(("sort", "backward", "divergent")) == {"indices-ignored"}
    assert table(("matmul", "forward", "divergent")) == frozenset()
