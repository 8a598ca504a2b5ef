"""ONNX Runtime: ``onnxruntime`` (or ``ort``), an operator call as a graph of its own.

``+ep=PROVIDER`` chooses an execution provider (default: its CPU kernels),
``+opt=off|basic|all`` the graph optimizations (default: all of them, as in a session without
options), ``+opset=N`` the version of ONNX's operators, and ``+threads=N`` the threads of one
operator (default: 1).

Calls are translated by torch's own exporter, once per signature (:mod:`.exporter`,
:mod:`.translation`): some 30 calls of new signatures, and hundreds of known ones, run per second.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import ClassVar

from ..base import Backend
from . import UNOPTIMIZED
from .graph_runtime import GraphRuntime, ModelSessions
from .sessions import Sessions

_PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "dml": "DmlExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "xnnpack": "XnnpackExecutionProvider",
}


class OnnxRuntime(GraphRuntime):
    """``onnxruntime+ep=…+opt=…+opset=…+threads=…``."""

    TITLE, EXTRA = "ONNX Runtime", "onnxruntime"
    PACKAGES = ("onnxruntime", "onnx", "onnxscript")
    SWITCHES: ClassVar = {
        "ep": tuple(_PROVIDERS),
        "opt": ("off", "basic", "all"),
        "opset": (),
        "threads": (),
    }

    def _lacks(self, package: ModuleType) -> str | None:
        offered = package.get_available_providers()
        if self._provider in offered:
            return None
        return f"this build of onnxruntime has no {self._provider}; it has {', '.join(offered)}"

    def has_float64(self) -> bool:
        return True

    def environment(self) -> dict[str, str]:
        return super().environment() | {
            "device": self.switched.get("ep", "cpu"),
            "graph optimizations": self.switched.get("opt", "all"),
        }

    def variants(self) -> Mapping[str, Backend]:
        if self.switched.get("opt") == "off":
            return super().variants()
        return {**super().variants(), UNOPTIMIZED: self._with("opt", "off")}

    @property
    def _provider(self) -> str:
        return _PROVIDERS[self.switched.get("ep", "cpu")]

    @functools.cached_property
    def _sessions(self) -> ModelSessions:
        return Sessions(self._provider, self.switched.get("opt", "all"), self._threads)
