"""DirectML on Windows and WSL: ``directml``, ``directml:1``, ``directml:PART-OF-A-NAME``, and
``+tiled=off``.

A child process finds its adapters (see ``_directml_adapters``); this process imports torch_directml
only if there is one. What is known to crash the process (bfloat16, complex numbers, nine
dimensions) is refused beforehand.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import torch

from ..core import dtypes
from ..core.model import Outcome
from ..core.trees import flatten
from ..core.verdict import OutcomeStatus
from ..errors import UsageError, did_you_mean
from ..generate.materialize import Adjust, Materials
from ..operators.declare import Operator
from ._directml_adapters import Adapters, discover
from ._driver_versions import driver_version
from ._messages import told
from .base import Backend, TorchBackend, every_warning

MAX_DIMENSIONS = 8
_PLAIN = Backend()


class DirectML(TorchBackend):
    """One adapter: the default one, one by number, or the one whose name contains ``adapter`` (in
    any case)."""

    SWITCHES = ("tiled",)
    tiled: ClassVar[bool | None] = (
        None  # of the process: it can be chosen once, before the first tensor
    )

    def __init__(
        self, name: str = "directml", adapter: str = "", switches: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(name, "privateuseone:0")
        self.adapter = adapter.strip()
        self.switched = dict(switches or {})
        for key, value in self.switched.items():
            if key not in self.SWITCHES:
                hint = did_you_mean(key, self.SWITCHES) or "; known: tiled"
                raise UsageError(f"backend {name!r:.80}: DirectML has no switch {key!r:.80}{hint}")
            if value not in ("on", "off"):
                raise UsageError(f"backend {name!r:.80}: tiled={value!r:.9}; expected tiled=on|off")

    def why_unavailable(self) -> str | None:
        adapters = discover()
        return adapters.reason or self._chosen(adapters)[1]

    def prepare(self) -> None:
        """Import torch_directml and open the adapter: ``device`` is right from then on."""
        if self.why_unavailable() is None and self._closed:
            raise RuntimeError(self._closed)

    def unsupported(self, operator: Operator, dtype: str, direction: str) -> str | None:
        deadly = _deadly(dtype)
        if deadly:
            return f"DirectML ends the process on {deadly}"
        if dtype == "float64" and self.has_float64() is False:
            return "no float64 on this adapter"
        return super().unsupported(operator, dtype, direction)

    def has_float64(self) -> bool | None:
        adapters = discover()
        index, _ = self._chosen(adapters)
        return adapters.float64[index] if index < len(adapters.float64) else None

    def run(
        self,
        operator: Operator,
        materials: Materials,
        direction: str = "forward",
        dtype: str | None = None,
        adjust: Adjust | None = None,
    ) -> Outcome:
        reason = self.why_unavailable() or self._closed
        if reason:
            return Outcome(OutcomeStatus.UNAVAILABLE, message=reason)
        reason = _ends_the_process(operator, materials, dtype)
        if reason:
            return Outcome(OutcomeStatus.UNSUPPORTED, message=reason)
        return super().run(operator, materials, direction, dtype, adjust)

    def switches(self) -> AbstractContextManager[Any]:
        return every_warning()

    def environment(self) -> dict[str, str]:
        adapters = discover()
        name = "" if adapters.reason else adapters.names[self._chosen(adapters)[0]]
        identity = super().environment() | {"device": name, "driver": driver_version(name)}
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            identity["torch_directml"] = importlib.metadata.version("torch-directml")
        return identity | {"tiled": self.switched.get("tiled", "on")}

    def _chosen(self, adapters: Adapters) -> tuple[int, str | None]:
        """The adapter's number, and why it is unknown or does not exist."""
        if not self.adapter:
            return adapters.default, None
        if self.adapter.isdecimal():
            index = int(self.adapter)
            return index, None if index < len(
                adapters.names
            ) else f"there is no adapter {index}; here: {adapters}"
        fitting = [
            i for i, name in enumerate(adapters.names) if self.adapter.lower() in name.lower()
        ]
        if len(fitting) == 1:
            return fitting[0], None
        if not fitting:
            return len(
                adapters.names
            ), f"no adapter has {self.adapter!r} in its name; here: {adapters}"
        return fitting[
            0
        ], f"{self.adapter!r} fits {len(fitting)} adapters, choose by number; here: {adapters}"

    @functools.cached_property
    def _closed(self) -> str | None:
        """Import torch_directml and set its switch, once; returns why that failed. Only called if a
        child found the adapter."""
        tiled = self.switched.get("tiled", "on") == "on"
        if DirectML.tiled is not None and DirectML.tiled != tiled:
            return (
                "tiled resources can be switched only before a process's first tensor: test "
                "this in a run of its own"
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                module: Any = importlib.import_module("torch_directml")
            if not tiled:
                module.disable_tiled_resources(True)
            DirectML.tiled = tiled
            self.device = str(module.device(self._chosen(discover())[0]))
        except Exception as error:
            return f"torch_directml could not be opened: {told(error)}"
        return None


def _deadly(dtype: str) -> str:
    return dtype if dtype == "bfloat16" or dtype.startswith(("complex", "float8")) else ""


def _ends_the_process(operator: Operator, materials: Materials, dtype: str | None) -> str:
    """Whether DirectML crashes on an argument or a result of this kind: the CPU computes it
    first."""
    arguments = materials.build(dtype)
    outcome = _PLAIN.run(operator, materials, "forward", dtype)
    inputs = [
        item
        for item in flatten((arguments.args, arguments.kwargs))
        if isinstance(item, (torch.Tensor, torch.dtype))
    ]
    for item in (
        *inputs,
        *(output.tensor for output in outcome.outputs if output.tensor is not None),
    ):
        name = dtypes.name_of(item if isinstance(item, torch.dtype) else item.dtype)
        if _deadly(name):
            return f"DirectML ends the process on {name}"
        if isinstance(item, torch.Tensor) and item.ndim > MAX_DIMENSIONS:
            return (
                f"DirectML ends the process on {item.ndim} dimensions, it has at most "
                f"{MAX_DIMENSIONS}"
            )
    return ""
