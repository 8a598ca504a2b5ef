"""torch on the CPU: the reference device, and its switches.

``+onednn=off``, ``+threads=N``, ``+compile`` (inductor; ``+compile=dynamic``: sizes are symbols),
``+flush_denormal=on`` (subnormal numbers count as zero) and ``+matmul=medium`` (float32 matrices
may be multiplied in bfloat16, where the processor can).
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from ..errors import UsageError, did_you_mean
from .base import Backend
from .runtimes.compile_switch import CompilingBackend, check_compile


class Cpu(CompilingBackend):
    """``cpu``, ``cpu+onednn=off``, ``cpu+threads=1``, and both together."""

    SWITCHES = ("onednn", "threads", "compile", "flush_denormal", "matmul")

    def __init__(self, name: str = "cpu", switches: Mapping[str, str] | None = None) -> None:
        super().__init__(name, "cpu")
        self.switched = dict(switches or {})
        for key, value in self.switched.items():
            if key not in self.SWITCHES:
                hint = did_you_mean(key, self.SWITCHES) or f"; known: {', '.join(self.SWITCHES)}"
                raise UsageError(f"backend {name!r:.80}: the CPU has no switch {key!r:.80}{hint}")
            number = value.isascii() and value.isdecimal() and 0 < int(value) < 1 << 16
            if key == "compile":
                check_compile(name, value)
                continue
            values = _VALUES.get(key, (value,))
            if value not in values or (key == "threads" and not number):
                expected = "|".join(values) if key in _VALUES else "NUMBER"
                raise UsageError(
                    f"backend {name!r:.80}: {key}={value!r:.40}; expected {key}={expected}"
                )

    def why_unavailable(self) -> str | None:
        if "compile" in self.switched and not any(shutil.which(name) for name in _COMPILERS):
            return (
                f"torch.compile needs a C++ compiler, and none is on the path "
                f"({', '.join(_COMPILERS)})"
            )
        return super().why_unavailable()

    def has_float64(self) -> bool:
        return True

    def switches(self) -> AbstractContextManager[Any]:
        return self._switches() if self.switched else contextlib.nullcontext()

    @contextlib.contextmanager
    def _switches(self) -> Iterator[None]:
        # Not torch.backends.mkldnn.flags(): newer versions of it set other switches (TF32, float32
        # precision) on the way.
        mkldnn: Any = torch.backends.mkldnn
        threads, onednn = torch.get_num_threads(), mkldnn.enabled
        thread_count = int(self.switched.get("threads", threads))
        enabled = {"on": True, "off": False}.get(self.switched.get("onednn", ""), onednn)
        flushes, precision = _flushes(), _matmul_precision()
        try:
            if "flush_denormal" in self.switched:
                torch.set_flush_denormal(self.switched["flush_denormal"] == "on")
            if "matmul" in self.switched:
                torch.set_float32_matmul_precision(self.switched["matmul"])
            if enabled != onednn:
                mkldnn.enabled = enabled
            if thread_count != threads:
                torch.set_num_threads(thread_count)
            yield
        finally:
            if "flush_denormal" in self.switched:
                torch.set_flush_denormal(flushes)
            if "matmul" in self.switched:
                torch.set_float32_matmul_precision(
                    precision if precision in _VALUES["matmul"] else "highest"
                )
            if enabled != onednn:
                mkldnn.enabled = onednn
            if thread_count != threads:
                torch.set_num_threads(threads)

    def variants(self) -> Mapping[str, Backend]:
        switches = {"oneDNN off": ("onednn", "off"), "one thread": ("threads", "1")}
        return {
            words: Cpu(self.name, self.switched | {key: value})
            for words, (key, value) in switches.items()
            if self.switched.get(key) != value
        }

    def environment(self) -> dict[str, str]:
        mkldnn: Any = torch.backends.mkldnn
        blas = re.search(r"(?<![A-Z])BLAS_INFO=([^,\s]+)", torch.__config__.show())
        return (
            super().environment()
            | {
                "threads": self.switched.get("threads", str(torch.get_num_threads())),
                "onednn": self.switched.get(
                    "onednn", "on" if mkldnn.is_available() and mkldnn.enabled else "off"
                ),
                "blas": blas.group(1) if blas else "unknown",
                "float32 matmul": self.switched.get("matmul", _matmul_precision()),
            }
            | (
                {"flush denormal": self.switched["flush_denormal"]}
                if "flush_denormal" in self.switched
                else {}
            )
        )


_VALUES = {
    "onednn": ("on", "off"),
    "flush_denormal": ("on", "off"),
    "matmul": ("highest", "high", "medium"),
}
_COMPILERS = ("c++", "g++", "clang++", "cl")


def _flushes() -> bool:
    """Whether this thread flushes subnormal numbers to zero; torch has no query for it."""
    return 2.0**-1074 * float(np.float64(1.0)) == 0.0


def _matmul_precision() -> str:
    """``highest``, unless the calling program lets oneDNN multiply float32 matrices in bfloat16 or
    TF32."""
    try:
        return str(torch.get_float32_matmul_precision())
    except (
        RuntimeError
    ):  # torch refuses to say when precisions were set through both of its interfaces
        return "mixed"
