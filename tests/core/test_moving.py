"""A move is never a cast: in what moved() does, and nowhere else in the package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

from consistency.core.moving import moved
from tests.test_imports import SOURCES


def test_a_cast_leaves_the_original_and_keeps_gradients() -> None:
    x = torch.tensor([0.1, 0.2], requires_grad=True)
    wide = moved(x, "cpu", torch.float64)
    assert (wide.dtype, x.dtype) == (torch.float64, torch.float32)
    wide.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1.0]


def test_without_a_change_it_is_the_same_tensor_unless_a_copy_is_asked_for() -> None:
    x = torch.ones(2)
    assert moved(x) is x
    assert moved(x, "cpu", torch.float32) is x
    assert moved(x, copy=True) is not x
    assert moved(x, copy=True).data_ptr() != x.data_ptr()


def test_the_cast_is_not_done_on_the_device() -> None:
    """A meta tensor has no numbers: casting it there would not be noticed, moving it raises."""
    assert moved(torch.ones(2), "meta", torch.float64).dtype == torch.float64
    with pytest.raises(NotImplementedError):
        moved(torch.ones(2, device="meta"), "meta", torch.float64)


def one_step(call: ast.Call) -> bool:
    """Whether a call of ``.to`` names a device and a dtype."""
    named = {keyword.arg for keyword in call.keywords}
    return len(call.args) > 1 or (bool(call.args) and "dtype" in named) or (
        {"device", "dtype"} <= named
    )  # fmt: skip


def steps(path: Path) -> list[str]:
    return [
        f"{path.name}:{node.lineno}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "to"
        and one_step(node)
    ]


def test_the_rule_notices_every_spelling() -> None:
    for text in ("t.to(d, f)", "t.to(device=d, dtype=f)", "t.to(d, dtype=f, copy=True)"):
        (statement,) = ast.parse(text).body
        assert isinstance(statement, ast.Expr)
        assert isinstance(statement.value, ast.Call)
        assert one_step(statement.value)
    for text in ("t.to(f, copy=True)", "t.to(device=d)", "t.to(d)"):
        (statement,) = ast.parse(text).body
        assert isinstance(statement, ast.Expr)
        assert isinstance(statement.value, ast.Call)
        assert not one_step(statement.value)


def test_nothing_moves_and_casts_in_one_step() -> None:
    # Parsing only what moves anything takes a fifth of the time.
    moving = [path for path in SOURCES if ".to(" in path.read_text(encoding="utf-8")]
    assert moving
    assert [place for path in moving for place in steps(path)] == []


def test_nobody_takes_a_backends_device_before_it_is_prepared() -> None:
    """Outside the room of backends, whose ``run`` and workers prepare them."""
    users = [
        path
        for path in SOURCES
        if "backends" not in path.parts
        and "backend.device" in path.read_text(encoding="utf-8")
        and any(
            isinstance(node, ast.Attribute)
            and node.attr == "device"
            and ast.unparse(node.value).endswith("backend")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        )
    ]
    # The second asks a backend that has given a result.
    assert [path.name for path in sorted(users)] == ["stopwatch.py", "run_pass.py"]
    assert "prepared(backend)" in sorted(users)[1].read_text(encoding="utf-8")
