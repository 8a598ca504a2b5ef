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
import importlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch

from ...errors import Unsupported
from ...operators.declare import Operator
from .._messages import told
from ..base import Backend
from .graph_runtime import GraphRuntime, ModelSessions
from .openvino_sessions import OpenVinoSessions, chosen_precision, devices

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

    def why_unavailable(self) -> str | None:
        missing = super().why_unavailable()
        if missing:
            return missing
        try:
            importlib.import_module("openvino")
            offered = devices()
        except Exception as error:
            return f"openvino cannot be imported: {told(error)}"
        if not any(name.split(".")[0] == self._device for name in offered):
            return f"OpenVINO finds no {self._device}; it finds {', '.join(offered) or 'no device'}"
        return None

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
            "opset": self.switched.get("opset", "the exporter's"),
            "threads": self.switched.get("threads", "1"),
        }

    def variants(self) -> Mapping[str, Backend]:
        if self.switched.get("precision") == "f32":
            return super().variants()
        single = OpenVino(self.name, self.switched | {"precision": "f32"})
        single._translator = self._translator
        return {**super().variants(), IN_FLOAT32: single}

    @property
    def _device(self) -> str:
        return self.switched.get("device", "cpu").upper()

    @property
    def _default_precision(self) -> str:
        return f"{chosen_precision(self._device)} (the device's choice)"

    @functools.cached_property
    def _sessions(self) -> ModelSessions:
        return OpenVinoSessions(
            self._device,
            self.switched.get("precision", ""),
            int(self.switched.get("threads", "1")),
        )
