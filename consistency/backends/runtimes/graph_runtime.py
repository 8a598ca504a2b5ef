"""What all runtimes of ONNX graphs share as backends: a call is translated once per signature, run
in a session, and evaluated without the runtime where it fails."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from ...errors import Unsupported
from ...operators.declare import Operator
from ..base import Backend
from . import EVALUATED, EVALUATED_IN_FLOAT64
from .evaluator import GraphEvaluator
from .runtime import Runtime
from .translation import Translator, tensors_of


class ModelSessions(Protocol):
    """Runs serialized ONNX models. Raises Unsupported, RuntimeError."""

    def run(self, model: bytes, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]: ...


class GraphRuntime(Runtime):
    """A runtime of ONNX graphs. Tensors stay on the CPU on torch's side."""

    differentiable = False

    def unsupported(self, operator: Operator, dtype: str, direction: str) -> str | None:
        if dtype.startswith("complex"):
            return f"{self.TITLE} has no complex numbers"
        return super().unsupported(operator, dtype, direction)

    def environment(self) -> dict[str, str]:
        chosen = {
            "opset": self.switched.get("opset", "the exporter's"),
            "threads": str(self._threads),
        }
        return super().environment() | chosen

    def variants(self) -> Mapping[str, Backend]:
        return {
            EVALUATED: GraphEvaluator(self.name, self._translator, in_float64=False),
            EVALUATED_IN_FLOAT64: GraphEvaluator(self.name, self._translator, in_float64=True),
        }

    def _with(self, switch: str, value: str) -> GraphRuntime:
        """The same runtime with another value of a switch, on the same translations."""
        other = type(self)(self.name, self.switched | {switch: value})
        other._translator = self._translator
        return other

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        tensors = tensors_of(args, kwargs)
        if any(tensor.is_complex() for tensor in tensors):
            raise Unsupported(f"{self.TITLE} has no complex numbers")
        translation = self._translator.translate(operator, args, kwargs)
        return translation.returned(self._sessions.run(translation.model, tensors), tensors)

    def run_model(self, model: bytes, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs of a whole serialized model. Raises Unsupported, RuntimeError."""
        return self._sessions.run(model, tensors)

    @property
    def _threads(self) -> int:
        return int(self.switched.get("threads", "1"))

    @functools.cached_property
    def _translator(self) -> Translator:
        opset = self.switched.get("opset")
        return Translator(None if opset is None else int(opset))

    @functools.cached_property
    def _sessions(self) -> ModelSessions:
        raise NotImplementedError
