"""JAX: ``jax``, an operator call translated by torchax and compiled by XLA as one program.

``+jit=off`` runs each JAX function of the translation as a program of its own, ``+device=cpu|gpu|
tpu`` chooses the platform (default: cpu), and ``+precision=default|high|highest`` how float32
matrices are multiplied (``jax_default_matmul_precision``; a CPU multiplies in float32 either way).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar

from ...operators.declare import Operator
from ..base import Backend
from .jax_calls import JaxCalls, start
from .runtime import Runtime

OP_BY_OP = "each JAX function a program of its own"  # the variant


class Jax(Runtime):
    """``jax+jit=…+device=…+precision=…``. Tensors stay on the CPU on torch's side."""

    TITLE, EXTRA = "JAX", "jax"
    PACKAGES = ("jax", "torchax")
    SWITCHES: ClassVar = {
        "jit": ("on", "off"),
        "device": ("cpu", "gpu", "tpu"),
        "precision": ("default", "high", "highest"),
    }
    differentiable = False

    def _lacks(self, package: ModuleType) -> str | None:
        start(self._device, self.switched.get("precision"))
        platform = package.default_backend()
        if platform == self._device:
            return None
        return f"JAX computes on {platform} in this process, not on {self._device}"

    def has_float64(self) -> bool:
        return self._device != "tpu"

    def prepare(self) -> None:
        start(self._device, self.switched.get("precision"))

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self._calls.call(operator, args, kwargs)

    def environment(self) -> dict[str, str]:
        return super().environment() | {
            "device": self._device,
            "jit": self.switched.get("jit", "on"),
            "precision": self.switched.get("precision", "default"),
        }

    def variants(self) -> Mapping[str, Backend]:
        if self.switched.get("jit") == "off":
            return {}
        return {OP_BY_OP: type(self)(self.name, self.switched | {"jit": "off"})}

    @property
    def _device(self) -> str:
        return self.switched.get("device", "cpu")

    @functools.cached_property
    def _calls(self) -> JaxCalls:
        return JaxCalls(jit=self.switched.get("jit") != "off")
