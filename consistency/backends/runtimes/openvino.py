"""OpenVINO: ``openvino``, an operator call as a graph of its own.

``+device=cpu|gpu|npu`` chooses the plugin (default: cpu), ``+precision=f32|bf16|f16`` the format in
which it computes what the graph says in float32, ``+opset=N`` the version of ONNX's operators, and
``+threads=N`` the threads of one operator (default: 1).

Without ``+precision`` a plugin chooses: on a CPU with bfloat16 instructions it computes products,
convolutions and what follows them in bfloat16. What it chose stands in the environment, and a
failing case is repeated in float32.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

import torch

from ...errors import Unsupported
from ...operators.declare import Operator
from ..base import Backend
from .graph_runtime import GraphRuntime, ModelSessions
from .openvino_sessions import OpenVinoSessions, chosen_precision, devices, openvino_package

IN_FLOAT32 = "inference precision f32"  # the variant


class OpenVino(GraphRuntime):
    """``openvino+device=…+precision=…+opset=…+threads=…``."""

    TITLE, EXTRA = "OpenVINO", "openvino"
    PACKAGES = ("openvino", "onnx", "onnxscript")
    SWITCHES: ClassVar = {
        "device": ("cpu", "gpu", "npu"),
        "precision": ("f32", "bf16", "f16"),
        "opset": (),
        "threads": (),
    }

    def _imported(self) -> ModuleType:
        return openvino_package()

    def _lacks(self, package: ModuleType) -> str | None:
        offered = devices()
        if any(name.split(".")[0] == self._device for name in offered):
            return None
        return f"OpenVINO finds no {self._device}; it finds {', '.join(offered) or 'no device'}"

    def unsupported(self, operator: Operator, dtype: str, direction: str) -> str | None:
        if dtype == "float64":
            return "OpenVINO computes float64 in float32"
        return super().unsupported(operator, dtype, direction)

    def has_float64(self) -> bool:
        return False

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        translation = self._translator.translate(operator, args, kwargs)
        if any(is_tensor and dtype == torch.float64 for is_tensor, dtype in translation.leaves):
            raise Unsupported("OpenVINO computes float64 in float32")
        return super().call(operator, args, kwargs)

    def environment(self) -> dict[str, str]:
        return super().environment() | {
            "device": self.switched.get("device", "cpu"),
            "precision": self.switched.get("precision") or self._default_precision,
        }

    def variants(self) -> Mapping[str, Backend]:
        if self.switched.get("precision") == "f32":
            return super().variants()
        return {**super().variants(), IN_FLOAT32: self._with("precision", "f32")}

    @property
    def _device(self) -> str:
        return self.switched.get("device", "cpu").upper()

    @property
    def _default_precision(self) -> str:
        return f"{chosen_precision(self._device)} (the device's choice)"

    @functools.cached_property
    def _sessions(self) -> ModelSessions:
        return OpenVinoSessions(self._device, self.switched.get("precision", ""), self._threads)
