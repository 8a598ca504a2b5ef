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
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ...errors import Unsupported, UsageError, did_you_mean
from ...operators.declare import Operator
from .._messages import told
from ..base import Backend
from . import EVALUATED, EVALUATED_IN_FLOAT64, UNOPTIMIZED
from .evaluator import GraphEvaluator
from .sessions import Sessions
from .translation import Translator, tensors_of

PACKAGES = ("onnxruntime", "onnx", "onnxscript")
_PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "dml": "DmlExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "xnnpack": "XnnpackExecutionProvider",
}
_VALUES = {"ep": tuple(_PROVIDERS), "opt": ("off", "basic", "all")}


def not_installed() -> list[str]:
    """The packages of the extra that are absent; nothing is imported."""
    return [name for name in PACKAGES if importlib.util.find_spec(name) is None]


class OnnxRuntime(Backend):
    """``onnxruntime+ep=…+opt=…+opset=…+threads=…``. Tensors stay on the CPU on torch's side."""

    SWITCHES = ("ep", "opt", "opset", "threads")
    differentiable = False
    keeps_contract = False  # a graph knows neither views nor strides

    def __init__(
        self, name: str = "onnxruntime", switches: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.switched = dict(switches or {})
        for key, value in self.switched.items():
            if key not in self.SWITCHES:
                hint = did_you_mean(key, self.SWITCHES) or f"; known: {', '.join(self.SWITCHES)}"
                raise UsageError(f"backend {name!r:.80}: ONNX Runtime has no switch {key!r}{hint}")
            number = value.isascii() and value.isdecimal() and 0 < int(value) < 1 << 16
            if value not in _VALUES.get(key, (value,)) or (key not in _VALUES and not number):
                expected = "|".join(_VALUES.get(key, ("NUMBER",)))
                raise UsageError(
                    f"backend {name!r:.80}: {key}={value!r:.40}; expected {key}={expected}"
                )

    def why_unavailable(self) -> str | None:
        missing = not_installed()
        if missing:
            are = "is" if len(missing) == 1 else "are"
            text = f"{' and '.join(missing)} {are} not installed"
            return f'{text}: pip install "consistency[onnxruntime]"'
        try:
            offered = importlib.import_module("onnxruntime").get_available_providers()
        except Exception as error:
            return f"onnxruntime cannot be imported: {told(error)}"
        if self._provider not in offered:
            return f"this build of onnxruntime has no {self._provider}; it has {', '.join(offered)}"
        return None

    def unsupported(self, operator: Operator, dtype: str, direction: str) -> str | None:
        if dtype.startswith("complex"):
            return "ONNX Runtime has no complex numbers"
        if "random" in operator.traits:
            return "a graph draws random numbers of its own"
        return super().unsupported(operator, dtype, direction)

    def has_float64(self) -> bool:
        return True

    def environment(self) -> dict[str, str]:
        versions = {name: importlib.metadata.version(name) for name in PACKAGES}
        return (
            super().environment()
            | versions
            | {
                "device": self.switched.get("ep", "cpu"),
                "graph optimizations": self.switched.get("opt", "all"),
                "opset": self.switched.get("opset", "the exporter's"),
                "threads": self.switched.get("threads", "1"),
            }
        )

    def variants(self) -> Mapping[str, Backend]:
        unoptimized = OnnxRuntime(self.name, self.switched | {"opt": "off"})
        unoptimized._translator = self._translator
        evaluated: dict[str, Backend] = {
            EVALUATED: GraphEvaluator(self.name, self._translator, in_float64=False),
            EVALUATED_IN_FLOAT64: GraphEvaluator(self.name, self._translator, in_float64=True),
        }
        return evaluated | ({} if self.switched.get("opt") == "off" else {UNOPTIMIZED: unoptimized})

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        tensors = tensors_of(args, kwargs)
        if any(tensor.is_complex() for tensor in tensors):
            raise Unsupported("ONNX Runtime has no complex numbers")
        translation = self._translator.translate(operator, args, kwargs)
        return translation.returned(self._sessions.run(translation.model, tensors), tensors)

    def run_model(self, model: bytes, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs of a whole serialized model. Raises Unsupported, RuntimeError."""
        return self._sessions.run(model, tensors)

    @property
    def _provider(self) -> str:
        return _PROVIDERS[self.switched.get("ep", "cpu")]

    @functools.cached_property
    def _translator(self) -> Translator:
        opset = self.switched.get("opset")
        return Translator(None if opset is None else int(opset))

    @functools.cached_property
    def _sessions(self) -> Sessions:
        return Sessions(
            self._provider, self.switched.get("opt", "all"), int(self.switched.get("threads", "1"))
        )
