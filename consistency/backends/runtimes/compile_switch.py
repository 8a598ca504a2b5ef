"""``+compile``: what CPU and CUDA have in common where torch.compile computes their cases."""

from __future__ import annotations

import functools
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


class CompilingBackend(TorchBackend):
    """Calls go through torch.compile where ``switched`` has ``compile``."""

    switched: dict[str, str]

    def prepare(self) -> None:
        if "compile" in self.switched:  # the first graph of a process takes far longer
            negative = operators.get("neg")
            self._calls.call(negative, [torch.ones(2, device=self.device)], {})

    def invoke(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if "compile" not in self.switched:
            return super().invoke(operator, args, kwargs)
        return self._calls.call(operator, args, kwargs)

    @functools.cached_property
    def _calls(self) -> CompiledCalls:
        return CompiledCalls(dynamic=self.switched["compile"] == "dynamic")
