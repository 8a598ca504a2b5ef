"""torch on the CPU: the reference device, and its switches ``+onednn=off`` and ``+threads=N``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch

from ..errors import UsageError, did_you_mean
from .base import TorchBackend


class Cpu(TorchBackend):
    """``cpu``, ``cpu+onednn=off``, ``cpu+threads=1``, and both together."""

    SWITCHES = ("onednn", "threads")

    def __init__(self, name: str = "cpu", switches: Mapping[str, str] | None = None) -> None:
        super().__init__(name, "cpu")
        self.switched = dict(switches or {})
        for key, value in self.switched.items():
            if key not in self.SWITCHES:
                hint = did_you_mean(key, self.SWITCHES) or f"; known: {', '.join(self.SWITCHES)}"
                raise UsageError(f"backend {name!r}: the CPU has no switch {key!r}{hint}")
            if (key == "onednn" and value not in ("on", "off")) or (key == "threads" and not value.isdecimal()):
                raise UsageError(f"backend {name!r}: {key}={value!r}; expected onednn=on|off, threads=NUMBER")

    def switches(self) -> AbstractContextManager[Any]:
        return self._switches() if self.switched else contextlib.nullcontext()

    @contextlib.contextmanager
    def _switches(self) -> Iterator[None]:
        threads = torch.get_num_threads()
        wanted = int(self.switched.get("threads", threads)) or threads
        onednn = self.switched.get("onednn", "on") == "on"
        with torch.backends.mkldnn.flags(enabled=onednn):
            if wanted != threads:
                torch.set_num_threads(wanted)
            try:
                yield
            finally:
                if wanted != threads:
                    torch.set_num_threads(threads)

    def environment(self) -> dict[str, str]:
        config = {line.split("=")[0]: line for line in torch.__config__.show().replace(", ", "\n").splitlines() if "=" in line}
        return super().environment() | {
            "threads": self.switched.get("threads", str(torch.get_num_threads())),
            "onednn": self.switched.get("onednn", "on" if torch.backends.mkldnn.is_available() else "absent"),  # type: ignore[no-untyped-call]
            "blas": config.get("BLAS_INFO", "").removeprefix("BLAS_INFO=") or "unknown",
        }
