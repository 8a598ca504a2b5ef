"""torch_xla: ``xla``, torch's operators on a device of XLA.

A torch_xla needs the torch that it was built for, so it is usually in an environment of its own:
``xla@PATH/TO/python``. Which device computes says PJRT_DEVICE
(``xla@PYTHON+env:PJRT_DEVICE=CPU``); without it torch_xla chooses.
"""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any, ClassVar

from ..base import TorchBackend
from .runtime import Runtime


class Xla(Runtime, TorchBackend):
    """Calls are recorded, and compiled when their results are read."""

    TITLE, EXTRA = "torch_xla", "xla"
    PACKAGES = ("torch_xla",)
    SWITCHES: ClassVar = {}
    device = "xla"

    @classmethod
    def remedy(cls) -> str:
        return "it needs the torch of its own version, such as in another environment: xla@PYTHON"

    def _lacks(self, package: ModuleType) -> str | None:
        importlib.import_module("torch_xla.runtime").device_type()  # raises without a device
        return None

    def prepare(self) -> None:
        importlib.import_module("torch_xla")  # registers the device with torch

    def has_float64(self) -> bool:
        return True

    def finish(self) -> None:
        importlib.import_module("torch_xla").sync(wait=True)

    @contextlib.contextmanager
    def switches(self) -> Iterator[None]:
        """Warns of operators that torch computed on the CPU meanwhile, which torch_xla counts."""
        before = _on_the_cpu()
        with super().switches():
            yield
        names = sorted(name for name, count in _on_the_cpu().items() if count > before.get(name, 0))
        if names:
            warnings.warn(
                f"torch_xla falls back to the CPU: {', '.join(names)[:200]}", stacklevel=2
            )

    def environment(self) -> dict[str, str]:
        runtime: Any = importlib.import_module("torch_xla.runtime")
        return super().environment() | {"device": f"xla ({runtime.device_type()})"}


def _on_the_cpu() -> dict[str, int]:
    """How often each operator was computed on the CPU in this process."""
    metrics: Any = importlib.import_module("torch_xla.debug.metrics")
    return {
        name: int(metrics.counter_value(name))
        for name in metrics.counter_names()
        if name.startswith("aten::") and name != _READ
    }


_READ = "aten::_local_scalar_dense"  # a number that was read, such as by ``item``
