"""A model as torch's exporter exports it, on a runtime."""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

import torch

from ...backends.runtimes import exporter
from ...backends.runtimes.translation import reason
from ...errors import Unsupported
from ..training_task import Subject
from .check import ExportCheck, check
from .torch_program import TorchProgram

if TYPE_CHECKING:
    from ...backends.runtimes.graph_runtime import GraphRuntime


def compare_export(subject: Subject, runtime: GraphRuntime, replicas: int) -> ExportCheck:
    """The subject's model with its first inputs: exported, run on ``runtime``, and compared.

    Raises UsageError where torch.export refuses the model, Unsupported where the ONNX exporter
    does. What the runtime refuses is reported as refused.
    """
    inputs, _ = subject.batch(0)
    program = TorchProgram(subject.model, inputs)
    try:
        model = exported(program, runtime.switched.get("opset"))
    except Exception as error:  # the exporter's kinds are its own
        raise Unsupported(reason(error)) from None
    return check(subject.name, model, program, runtime.name, runtime.run_model, replicas)


def exported(program: TorchProgram, opset: str | None = None) -> Any:
    """The program as a ``ModelProto``, with what the exporter notes of each node."""
    exporter.prepare()
    options: dict[str, Any] = {} if opset is None else {"opset_version": int(opset)}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        made: Any = torch.onnx.export(program.program, verbose=False, **options)
    onnx: Any = importlib.import_module("onnx")
    return onnx.load_from_string(made.model_proto.SerializeToString())
