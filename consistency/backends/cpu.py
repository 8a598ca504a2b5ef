"""torch on the CPU: the reference device, and its switches ``+onednn=off`` and ``+threads=N``."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch

from ..errors import UsageError, did_you_mean
from .base import Backend, TorchBackend


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
            number = value.isascii() and value.isdecimal() and 0 < int(value) < 1 << 16
            if (key == "onednn" and value not in ("on", "off")) or (key == "threads" and not number):
                raise UsageError(f"backend {name!r}: {key}={value!r}; expected onednn=on|off, threads=NUMBER")

    def has_float64(self) -> bool:
        return True

    def switches(self) -> AbstractContextManager[Any]:
        return self._switches() if self.switched else contextlib.nullcontext()

    @contextlib.contextmanager
    def _switches(self) -> Iterator[None]:
        # Not torch.backends.mkldnn.flags(): newer versions of it set other switches (TF32, float32 precision) on the way.
        mkldnn: Any = torch.backends.mkldnn
        threads, onednn = torch.get_num_threads(), mkldnn.enabled
        wanted = int(self.switched.get("threads", threads))
        enabled = {"on": True, "off": False}.get(self.switched.get("onednn", ""), onednn)
        try:
            if enabled != onednn:
                mkldnn.enabled = enabled
            if wanted != threads:
                torch.set_num_threads(wanted)
            yield
        finally:
            if enabled != onednn:
                mkldnn.enabled = onednn
            if wanted != threads:
                torch.set_num_threads(threads)

    def variants(self) -> Mapping[str, Backend]:
        others = {"oneDNN off": ("onednn", "off"), "one thread": ("threads", "1")}
        return {
            words: Cpu(self.name, self.switched | {key: value})
            for words, (key, value) in others.items()
            if self.switched.get(key) != value
        }

    def environment(self) -> dict[str, str]:
        mkldnn: Any = torch.backends.mkldnn
        blas = re.search(r"(?<![A-Z])BLAS_INFO=([^,\s]+)", torch.__config__.show())
        return super().environment() | {
            "threads": self.switched.get("threads", str(torch.get_num_threads())),
            "onednn": self.switched.get("onednn", "on" if mkldnn.is_available() and mkldnn.enabled else "off"),
            "blas": blas.group(1) if blas else "unknown",
            "float32 matmul": _matmul_precision(),
        }


def _matmul_precision() -> str:
    """``highest``, unless the program around us allows oneDNN to multiply float32 matrices in bfloat16 or TF32."""
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:  # torch refuses to say when precisions were set through both of its interfaces
        return "mixed"
