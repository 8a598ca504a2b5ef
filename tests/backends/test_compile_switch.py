"""``+compile`` of the CPU and of CUDA: which values it takes, and on which device a compiled call
creates its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from consistency import operators
from consistency.backends._specs import parse
from consistency.backends.cuda import Cuda
from consistency.backends.runtimes.compile_switch import CompilingBackend, takes_a_device
from consistency.core.model import Result
from consistency.errors import UsageError
from consistency.operators.declare import Operator
from consistency.report.repro_script import backend_setup
from consistency.report.repro_script.script_context import Sheet


class OnNoDevice(CompilingBackend):
    """``meta`` stands for an accelerator: a tensor that is made on the CPU differs from its own."""

    def __init__(self, **switched: str) -> None:
        super().__init__("meta", "meta")
        self.switched = switched


@pytest.mark.parametrize("switched", [{}, {"compile": ""}, {"compile": "dynamic"}])
def test_a_compiled_call_creates_its_tensors_on_the_device(switched: dict[str, str]) -> None:
    backend = OnNoDevice(**switched)
    made: list[str] = []
    if switched:
        backend.__dict__["_calls"] = NoGraph(made)
    result = backend.call(operators.get("full"), [[3], 2.0], {})
    assert result.device.type == "meta"
    assert made == (["full"] if switched else [])


@pytest.mark.parametrize("name", ["full", "scalar_tensor", "rand", "signal.windows.hann"])
def test_the_device_is_an_argument_of_the_graph(name: str) -> None:
    assert takes_a_device(operators.get(name))


@pytest.mark.parametrize("name", ["neg", "matmul", "nn.functional.conv2d"])
def test_of_others_it_is_none(name: str) -> None:
    assert not takes_a_device(operators.get(name))


class NoGraph:
    """What CompiledCalls does, without a compiler."""

    def __init__(self, made: list[str]) -> None:
        self.made = made

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self.made.append(operator.name)
        return operator(*args, **kwargs)


def test_cuda_takes_compile_as_the_cpu_does() -> None:
    assert Cuda("cuda+compile", switches={"compile": ""}).switched == {"compile": ""}
    assert Cuda("cuda+compile=dynamic", switches={"compile": "dynamic"}).switched["compile"]
    with pytest.raises(UsageError, match=r"compile='fast'; write \+compile or \+compile=dynamic"):
        Cuda("cuda+compile=fast", switches={"compile": "fast"})


def test_experiments_keep_the_compiler() -> None:
    """Without it another program would be looked into; so its origin is found by others."""
    compiled = Cuda("cuda+compile+tf32", switches={"compile": "", "tf32": ""})
    variants = compiled.variants()
    assert set(variants) == {"without +tf32", "deterministic algorithms"}
    assert all("compile" in v.switched for v in variants.values() if isinstance(v, Cuda))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_without_a_device_it_says_so() -> None:
    reason = Cuda("cuda+compile", switches={"compile": ""}).why_unavailable()
    assert reason == Cuda().why_unavailable()
    assert reason


@pytest.mark.parametrize("switch", ["compile", "compile=dynamic"])
def test_its_script_compiles_the_call(switch: str) -> None:
    spec = parse(f"cuda+{switch}")
    row = SimpleNamespace(backend=spec.text, dtype="float32")
    place = backend_setup._place(spec, spec.text, cast(Result, row), Sheet())
    assert (place.kind, place.compiled) == ("cuda", True)
    assert place.dynamic_shapes == (switch == "compile=dynamic")
