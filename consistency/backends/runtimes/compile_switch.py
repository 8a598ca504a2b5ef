"""``+compile``: what CPU and CUDA have in common where torch.compile computes their cases."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ... import operators
from ...errors import UsageError
from ...operators.declare import Operator
from ..base import TorchBackend
from .compiled import CompiledCalls


def check_compile(name: str, value: str) -> None:
    """Raises UsageError for what ``compile`` cannot be, in the backend of this name."""
    if value not in ("", "dynamic"):
        raise UsageError(
            f"backend {name!r:.80}: compile={value!r:.40}; write +compile or +compile=dynamic"
        )


def takes_a_device(operator: Operator) -> bool:
    """Whether ``device=`` is an argument of the operator's function, by its schema or signature."""
    function = operator.callable
    if isinstance(function, types.FunctionType):
        return "device" in inspect.signature(function).parameters
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{getattr(function, '__name__', '')}")
    return any(argument.name == "device" for schema in schemas for argument in schema.arguments)


class CompilingBackend(TorchBackend):
    """Calls go through torch.compile where ``switched`` has ``compile``."""

    switched: dict[str, str]

    def prepare(self) -> None:
        if "compile" in self.switched:  # the first graph of a process takes far longer
            negative = operators.get("neg")
            self._calls.call(negative, [torch.ones(2, device=self.device)], {})

    def create(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """As TorchBackend.create, but the device is an argument of the graph where the operator
        takes one: on an H100 (torch 2.11) nothing was compiled within 30 s under a default
        device, and in 0.6 s without."""
        if "compile" in self.switched and takes_a_device(operator):
            kwargs = {**kwargs, "device": self.device}
            return self.invoke(operator, args, kwargs)
        return super().create(operator, args, kwargs)

    def invoke(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if "compile" not in self.switched:
            return super().invoke(operator, args, kwargs)
        return self._calls.call(operator, args, kwargs)

    @functools.cached_property
    def _calls(self) -> CompiledCalls:
        return CompiledCalls(dynamic=self.switched["compile"] == "dynamic")
