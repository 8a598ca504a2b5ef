"""Calls of runtimes that run translated calls, for tests of what each of them owes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from consistency import operators
from consistency.backends.base import Backend
from consistency.backends.runtimes.jax_runtime import Jax
from consistency.backends.runtimes.onnx_runtime import OnnxRuntime
from consistency.backends.runtimes.openvino import OpenVino
from consistency.backends.runtimes.runtime import Runtime
from consistency.core.model import Case, Outcome
from consistency.generate.materialize import case_of, prepare


def needs(runtime: type[Runtime]) -> pytest.MarkDecorator:
    """Skips where the runtime's packages are not installed, with the remedy."""
    absent = runtime.not_installed()
    reason = f"{', '.join(absent)} not installed: {runtime.remedy()}"
    return pytest.mark.skipif(bool(absent), reason=reason)


needs_onnxruntime, needs_openvino, needs_jax = needs(OnnxRuntime), needs(OpenVino), needs(Jax)

# OpenVINO's default precision depends on the processor; float32 is asked for.
ONNXRUNTIME = pytest.param(OnnxRuntime(), id="onnxruntime", marks=needs_onnxruntime)
OPENVINO = pytest.param(
    OpenVino(switches={"precision": "f32"}), id="openvino", marks=needs_openvino
)
JAX = pytest.param(Jax(), id="jax", marks=needs_jax)


def run(backend: Backend, case: Case, **options: Any) -> Outcome:
    return backend.run(operators.get(case.operator), prepare(case), "forward", **options)


def call(backend: Backend, name: str, *args: Any, dtype: str = "float32", **kwargs: Any) -> Outcome:
    return run(backend, case_of(name, dtype, args, kwargs))


def tensors(outcome: Outcome) -> list[torch.Tensor]:
    """What a call returned and wrote. Fails where it was refused or raised."""
    assert outcome.ok, outcome.message
    return [output.tensor for output in outcome.outputs if output.tensor is not None]


def result(outcome: Outcome) -> torch.Tensor:
    return tensors(outcome)[0]
