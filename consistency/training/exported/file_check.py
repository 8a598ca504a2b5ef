"""An ONNX file on runtimes, beside the model of a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ... import backends as _backends
from ...backends.base import availability
from ...errors import UsageError
from .. import model_targets
from ..text import json_number
from .check import ExportCheck, check
from .model_file import load
from .torch_program import TorchProgram


def check_file(
    file: Path, target: Any, backends: Sequence[str], replicas: int
) -> tuple[list[ExportCheck], dict[str, str]]:
    """A check for each runtime, and why others cannot be used. Raises UsageError."""
    runtimes, absent = [], {}
    for backend in _backends.resolve_all(backends):
        runtime = _backends.runtime_of(backend)
        if runtime is None:
            raise UsageError(f"{backend.name} runs no ONNX files; give onnxruntime or openvino")
        reason = availability(runtime)
        if reason is not None:
            absent[runtime.name] = reason
        else:
            runtimes.append(runtime)
    if not runtimes:
        return [], absent
    model = load(file)
    subject = model_targets.subject(target)
    inputs, _ = subject.batch(0)
    program = TorchProgram(subject.model, inputs)
    return [
        check(file.name, model, program, runtime.name, runtime.run_model, replicas)
        for runtime in runtimes
    ], absent


def check_json(found: ExportCheck) -> dict[str, Any]:
    """A check as JSON's values."""
    place = found.location
    return {
        "file": found.name, "backend": found.runtime, "verdict": found.verdict,
        "fails": found.fails, "outputs": json_number(found.outputs), "raised": found.raised,
        "compared": found.compared, "calls": found.calls, "replicas": found.replicas,
        "node": place.node if place else None,
        "call": asdict(place.call) if place and place.call else None,
        "stage": place.stage if place else "", "reason": place.reason if place else "",
        "layers": [
            {"name": layer.name, "output": json_number(layer.output)} for layer in found.layers
        ],
    }  # fmt: skip
