"""What all runtimes of ONNX graphs share as backends: a call is translated once per signature, run
in a session, and evaluated without the runtime where it fails."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar, Protocol

import torch

from ...errors import Unsupported, UsageError, did_you_mean
from ...operators.declare import Operator
from .._messages import told
from ..base import Backend
from . import EVALUATED, EVALUATED_IN_FLOAT64
from .evaluator import GraphEvaluator
from .translation import Translator, tensors_of


class ModelSessions(Protocol):
    """Runs serialized ONNX models. Raises Unsupported, RuntimeError."""

    def run(self, model: bytes, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]: ...


class GraphRuntime(Backend):
    """A runtime with ``SWITCHES``, each with its values (empty: a positive number). Tensors stay on
    the CPU on torch's side.

    ``TITLE`` is its name in sentences, ``EXTRA`` what pip installs, ``PACKAGES`` what that is.
    """

    TITLE: ClassVar[str]
    EXTRA: ClassVar[str]
    PACKAGES: ClassVar[tuple[str, ...]]
    SWITCHES: ClassVar[Mapping[str, tuple[str, ...]]]
    differentiable = False
    keeps_contract = False  # a graph knows neither views nor strides

    def __init__(self, name: str = "", switches: Mapping[str, str] | None = None) -> None:
        self.name = name or self.EXTRA
        self.switched = dict(switches or {})
        for key, value in self.switched.items():
            if key not in self.SWITCHES:
                hint = did_you_mean(key, self.SWITCHES) or f"; known: {', '.join(self.SWITCHES)}"
                raise UsageError(f"backend {name!r:.80}: {self.TITLE} has no switch {key!r}{hint}")
            values = self.SWITCHES[key]
            number = value.isascii() and value.isdecimal() and 0 < int(value) < 1 << 16
            if value not in values and (values or not number):
                expected = "|".join(values or ("NUMBER",))
                raise UsageError(
                    f"backend {name!r:.80}: {key}={value!r:.40}; expected {key}={expected}"
                )

    @classmethod
    def not_installed(cls) -> list[str]:
        """The packages of the extra that are absent; nothing is imported."""
        return [name for name in cls.PACKAGES if importlib.util.find_spec(name) is None]

    def why_unavailable(self) -> str | None:
        missing = self.not_installed()
        if missing:
            are = "is" if len(missing) == 1 else "are"
            remedy = f'pip install "consistency[{self.EXTRA}]"'
            return f"{' and '.join(missing)} {are} not installed: {remedy}"
        package = self.PACKAGES[0]
        try:
            return self._lacks(importlib.import_module(package))
        except Exception as error:  # a native library may raise anything
            return f"{package} cannot be imported: {told(error)}"

    def _lacks(self, package: ModuleType) -> str | None:
        """What this build of the runtime or this machine lacks for the switches."""
        raise NotImplementedError

    def unsupported(self, operator: Operator, dtype: str, direction: str) -> str | None:
        if dtype.startswith("complex"):
            return f"{self.TITLE} has no complex numbers"
        if "random" in operator.traits:
            return "a graph draws random numbers of its own"
        return super().unsupported(operator, dtype, direction)

    def environment(self) -> dict[str, str]:
        versions = {name: importlib.metadata.version(name) for name in self.PACKAGES}
        chosen = {
            "opset": self.switched.get("opset", "the exporter's"),
            "threads": str(self._threads),
        }
        return super().environment() | versions | chosen

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
