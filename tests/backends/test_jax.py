"""JAX: programs of XLA, their numbers and what cannot be one; wrong translations are noticed."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from consistency.backends.runtimes.jax_runtime import OP_BY_OP, Jax
from consistency.core.verdict import OutcomeStatus
from consistency.judge import tolerances
from tests.support.graph_runtimes import call, needs_jax, result, tensors

X = torch.tensor([[1.5, -2.0, 0.25], [3.0, 0.5, -1.0]])


def test_subnormal_numbers_may_be_flushed_on_xla_only() -> None:
    rules = tolerances.load()
    flushes = {
        backend: rules.policy(backend, operator="mul", dtype="float32").flush_subnormals
        for backend in ("jax", "jax+jit=off", "xla@python", "cpu", "numpy", "onnxruntime")
    }
    assert [name for name, may in flushes.items() if may] == ["jax", "jax+jit=off", "xla@python"]


@pytest.fixture(scope="module")
def jax() -> Jax:
    with warnings.catch_warnings():  # of torchax, while it is imported
        warnings.simplefilter("ignore")
        backend = Jax()
        assert backend.why_unavailable() is None
    return backend


@needs_jax
class TestCalls:
    @pytest.mark.parametrize(
        "dtype", [torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.complex64]
    )
    def test_bits_of_every_dtype(self, jax: Jax, dtype: torch.dtype) -> None:
        x = torch.tensor([[1, 2], [3, 255]]).to(dtype) / (3 if dtype.is_floating_point else 1)
        x = x.to(dtype)
        found = result(call(jax, "permute", x, (1, 0), dtype=str(dtype).removeprefix("torch.")))
        assert found.dtype == dtype
        assert torch.equal(found, x.t())

    def test_float64_is_computed_in_float64(self, jax: Jax) -> None:
        x = torch.tensor([1.0 + 2.0**-50], dtype=torch.float64)
        assert torch.equal(result(call(jax, "mul", x, x, dtype="float64")), x * x)

    def test_numbers_that_shapes_depend_on_need_op_by_op(self, jax: Jax) -> None:
        outcome = call(jax, "nonzero", X)
        assert outcome.status is OutcomeStatus.UNSUPPORTED
        assert "cannot trace" in outcome.message
        assert torch.equal(result(call(jax.variants()[OP_BY_OP], "nonzero", X)), X.nonzero())  # type: ignore[arg-type]

    def test_tensors_are_created_by_jax(self, jax: Jax) -> None:
        assert result(call(jax, "arange", 3)).tolist() == [0, 1, 2]

    def test_a_known_call_is_not_compiled_again(
        self, jax: Jax, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = result(call(jax, "exp", X))
        module = importlib.import_module("consistency.backends.runtimes.jax_calls")
        monkeypatch.setattr(module, "_traced", None)
        assert torch.equal(result(call(jax, "exp", X)), first)
        assert not call(jax, "exp", torch.ones(5)).ok

    def test_none_among_the_results(self, jax: Jax) -> None:
        x, weight = torch.ones(2, 1, 4), torch.eye(4)
        outcome = call(
            jax, "nn.functional.multi_head_attention_forward", x, x, x, 4, 2, weight.repeat(3, 1),
            torch.zeros(12), None, None, False, 0.0, weight, torch.zeros(4), need_weights=False,
        )  # fmt: skip
        assert torch.allclose(result(outcome), x)

    def test_what_torchax_lacks_is_told(self, jax: Jax) -> None:
        outcome = call(jax, "special.airy_ai", X)
        assert outcome.status is OutcomeStatus.UNSUPPORTED
        assert "special_airy_ai has no lowering" in outcome.message

    def test_what_comes_from_torch_is_no_result_of_jax(self, jax: Jax) -> None:
        with planted("aten::relu", lambda x: torch.relu(torch.ones(2, 3))):
            outcome = call(jax, "relu", X + 1)
        assert outcome.status is OutcomeStatus.UNSUPPORTED
        assert "on the CPU" in outcome.message


def _softmax(axis: int) -> Callable[..., Any]:
    def translated(x: Any, dim: int, half_to_float: bool) -> Any:
        numpy = importlib.import_module("jax").numpy
        powers = numpy.exp(x - x.max(axis=axis, keepdims=True))
        return powers / powers.sum(axis=axis, keepdims=True)

    return translated


def _numpy(name: str, *more: Any) -> Callable[..., Any]:
    return lambda *args: getattr(importlib.import_module("jax").numpy, name)(*args, *more)


FAULTS = [
    ("nn.functional.softmax", (X, 1), "aten::_softmax", _softmax(0)),
    ("sin", (X,), "aten::sin", _numpy("cos")),
    ("mul", (X, X), "aten::mul", _numpy("add")),
    ("clamp", (X, -1.0, 1.0), "aten::clamp", lambda x, low, high: _numpy("clip")(x, low, 2 * high)),
    ("flip", (X, (0,)), "aten::flip", lambda x, dims: x),
]
HEALTHY = [
    ("nn.functional.softmax", (X, 1), "aten::_softmax", _softmax(1)),
    ("sin", (X,), "aten::sin", _numpy("sin")),
    ("mul", (X, X), "aten::mul", _numpy("multiply")),
    ("clamp", (X, -1.0, 1.0), "aten::clamp", _numpy("clip")),
    ("flip", (X, (0,)), "aten::flip", _numpy("flip")),
]


@needs_jax
@pytest.mark.parametrize(("healthy", "translations"), [(False, FAULTS), (True, HEALTHY)])
@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_translations_that_are_wrong(
    jax: Jax, healthy: bool, translations: list[Any], number: int
) -> None:
    from consistency import compare

    name, args, aten, function = translations[number]
    fresh = Jax()  # knows no program of it yet
    with planted(aten, function):
        found = tensors(call(fresh, name, *args))[0]
    expected = getattr(torch.nn.functional if "." in name else torch, name.split(".")[-1])
    wide = expected(*(a.double() if isinstance(a, torch.Tensor) else a for a in args))
    verdict = compare(found, wide, operator=name, args=list(args), dtype="float32").verdict
    assert verdict.fails != healthy


@contextmanager
def planted(aten: str, function: Callable[..., Any]) -> Iterator[None]:
    """Every overload of an operator translated by another function of arrays, meanwhile."""
    environment: Any = importlib.import_module("torchax").default_env()
    registry: Any = importlib.import_module("torchax.ops.ops_registry")
    packet = getattr(torch.ops.aten, aten.removeprefix("aten::"))
    keys = [packet, *(getattr(packet, overload) for overload in packet.overloads())]
    keys += [key for key in environment._ops if getattr(key, "__name__", "") == aten[6:]]
    before = {key: environment._ops.get(key) for key in keys}
    environment._ops |= {
        key: registry.Operator(key, function, True, False, False, False) for key in keys
    }
    try:
        yield
    finally:
        for key, entry in before.items():
            if entry is None:
                del environment._ops[key]
            else:
                environment._ops[key] = entry
