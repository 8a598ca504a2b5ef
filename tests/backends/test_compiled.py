"""Calls through Inductor: a graph per signature, kept; right with other numbers, sizes, strides and
shared memory."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from consistency import backends, operators
from consistency.backends.runtimes import compiled
from consistency.backends.runtimes.compiled import CompiledCalls
from consistency.errors import Unsupported, UsageError

pytestmark = [
    pytest.mark.skipif(
        not any(shutil.which(name) for name in ("g++", "clang++", "cl")),
        reason="torch.compile needs a C++ compiler",
    ),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Inductor's imports raise some
]
SCRIPTS = Path(__file__).parents[2] / "docs" / "inductor"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the graphs that were compiled."""
    numbers: list[int] = []
    compile_one = compiled._compiled

    def counted(plain: Any, number: int, *, dynamic: bool = False) -> Any:
        numbers.append(number)
        return compile_one(plain, number, dynamic=dynamic)

    monkeypatch.setattr(compiled, "_compiled", counted)
    return numbers


@pytest.mark.nightly
def test_a_graph_per_signature(made: list[int]) -> None:
    calls, add = CompiledCalls(), operators.get("add")
    x, y = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)
    assert torch.equal(calls.call(add, [x, y], {}), x + y)
    assert torch.equal(calls.call(add, [y, y * 3], {}), y * 4)  # other numbers
    assert torch.equal(calls.call(add, [x, x * 1], {}), x + x)
    assert len(made) == 1
    assert torch.equal(calls.call(add, [x, x], {}), x + x)  # shared memory
    assert torch.equal(calls.call(add, [x.t(), y.t()], {}), (x + y).t())  # strides and sizes
    assert torch.equal(calls.call(add, [x, y], {"alpha": 2}), x + 2 * y)
    assert len(made) == 4
    for _ in range(40):
        calls.call(add, [x, y], {})
    assert len(made) == 4


@pytest.mark.nightly
def test_a_graph_does_not_depend_on_the_place_in_memory(made: list[int]) -> None:
    calls, tanh = CompiledCalls(), operators.get("tanh")
    memory = bytearray(256)
    for place in range(0, 64, 4):
        x = torch.frombuffer(memory, dtype=torch.float32, count=33, offset=place)
        x.copy_(torch.linspace(-3.0, 3.0, 33))
        torch.testing.assert_close(calls.call(tanh, [x], {}), x.tanh())
    assert len(made) == 1


def test_gradients_have_a_graph_of_their_own(made: list[int]) -> None:
    calls, exp = CompiledCalls(), operators.get("exp")
    x = torch.linspace(-1.0, 1.0, 5)
    for scale in (1.0, 2.0):
        leaf = (x * scale).requires_grad_()
        calls.call(exp, [leaf], {}).sum().backward()
        assert leaf.grad is not None
        torch.testing.assert_close(leaf.grad, (x * scale).exp())
    calls.call(exp, [x], {})
    assert len(made) == 2


def test_what_has_no_graph_is_remembered_and_errors_are_not(made: list[int]) -> None:
    calls = CompiledCalls()
    for _ in range(2):
        with pytest.raises(Unsupported, match=r"torch\.compile takes no graph"):
            calls.call(operators.get("formula.mean"), [torch.ones(3)], {})
    assert len(made) == 1
    for _ in range(2):
        with pytest.raises(RuntimeError):
            calls.call(operators.get("matmul"), [torch.ones(2, 3), torch.ones(2, 3)], {})
    assert len(made) == 3


def test_what_does_not_compile_is_told_by_its_cause() -> None:
    cause = "RuntimeError: The tensor has no data.\nFurther advice."
    assert compiled._beyond_its_backend(f"backend='inductor' raised:\n{cause}") == cause
    assert compiled._beyond_its_backend(cause) == cause


@pytest.mark.nightly
def test_more_graphs_than_are_kept(made: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "MAX_GRAPHS", 2)
    calls, neg = CompiledCalls(), operators.get("neg")
    for size in (2, 3, 4, 2):
        x = torch.arange(float(size))
        assert torch.equal(calls.call(neg, [x], {}), -x)
    assert len(made) == 4


def test_dynamic_shapes_share_a_graph(made: list[int]) -> None:
    from torch._dynamo.utils import counters  # three seconds

    calls, add = CompiledCalls(dynamic=True), operators.get("add")
    kernels = counters["aot_autograd"]["total"]
    for rows in range(2, 14):  # equal sizes and multiples of 16 may have graphs of their own
        x, y = torch.randn(rows, 5), torch.randn(rows, 5)
        assert torch.equal(calls.call(add, [x, y], {}), x + y)
    assert len(made) == 1
    assert counters["aot_autograd"]["total"] - kernels <= 2
    for x in (torch.randn(1, 5), torch.randn(0, 5), torch.randn(5, 4).t()):
        assert torch.equal(calls.call(add, [x, x + 1], {}), x + (x + 1))
    assert len(made) == 4


def test_specs() -> None:
    assert backends.resolve("cpu+compile=dynamic").name == "cpu+compile=dynamic"
    with pytest.raises(UsageError, match=r"write \+compile or \+compile=dynamic"):
        backends.resolve("cpu+compile=static")


@pytest.mark.nightly
@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda script: script.stem)
def test_scripts_show_their_divergence(script: Path) -> None:
    """Those of docs/inductor.md, with torch alone."""
    assert "consistency" not in script.read_text(encoding="utf-8")
    subprocess.run([sys.executable, "-W", "ignore", str(script)], check=True, timeout=300)
