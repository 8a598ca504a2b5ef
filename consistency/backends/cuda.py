"""CUDA devices, with true float32 unless ``+tf32`` is given; also ``+deterministic``,
``+benchmark``, and ``+compile`` (Inductor, which writes kernels in Triton; ``+compile=dynamic``:
sizes are symbols)."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import torch

from ..errors import UsageError, did_you_mean
from ._cuda_switches import deterministic, in_effect, settings, tf32
from ._messages import first_line, text_of, told
from .base import Backend, every_warning
from .runtimes.compile_switch import CompilingBackend, check_compile

# After these the context is lost: every later call in this process fails.
_STICKY = re.compile(
    r"CUDA error: (?:device-side assert|an illegal memory access|unspecified launch "
    r"failure|misaligned address|"
    r"an illegal instruction|invalid program counter|invalid address space|hardware stack "
    r"error|uncorrectable ECC)",
    re.IGNORECASE,
)


class Cuda(CompilingBackend):
    """``cuda``, ``cuda:1``, ``cuda+tf32``, ``cuda+deterministic``, ``cuda+benchmark``, and
    combinations."""

    SWITCHES = ("tf32", "deterministic", "benchmark", "compile")
    lost: ClassVar[str] = ""  # of the process, hence of every instance

    def __init__(
        self, name: str = "cuda", index: int = 0, switches: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(name, f"cuda:{index}")
        self.index = index
        self.switched = dict(switches or {})
        for key, value in self.switched.items():
            if key not in self.SWITCHES:
                hint = did_you_mean(key, self.SWITCHES) or f"; known: {', '.join(self.SWITCHES)}"
                raise UsageError(f"backend {name!r:.80}: CUDA has no switch {key!r:.80}{hint}")
            if key == "compile":
                check_compile(name, value)
            elif value:
                raise UsageError(
                    f"backend {name!r:.80}: {key} takes no value; write +{key}, or leave it out"
                )
        if "deterministic" in self.switched:  # cuBLAS reads this once, before its first call
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

    def why_unavailable(self) -> str | None:
        if Cuda.lost:
            return f"the CUDA context of this process was lost in an earlier case: {Cuda.lost}"
        absent = why_absent(self.index)
        if absent is None and "compile" in self.switched:
            return _why_not_compiled(self.index)
        return absent

    def has_float64(self) -> bool:
        return True

    def finish(self) -> None:
        torch.cuda.synchronize(self.index)

    def recover(self, exception: str, message: str) -> None:
        if _STICKY.search(message):
            Cuda.lost = message
        elif exception == "OutOfMemoryError":
            torch.cuda.empty_cache()

    @contextlib.contextmanager
    def _switches(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(every_warning())
            stack.enter_context(tf32("tf32" in self.switched))
            stack.enter_context(settings("benchmark" in self.switched))
            if "deterministic" in self.switched:
                stack.enter_context(deterministic())
            yield

    def switches(self) -> AbstractContextManager[Any]:
        return self._switches()

    def variants(self) -> Mapping[str, Backend]:
        fewer = {
            f"without +{key}": {k: v for k, v in self.switched.items() if k != key}
            for key in self.switched
            if key not in ("deterministic", "compile")
        }
        more = (
            {}
            if "deterministic" in self.switched
            else {"deterministic algorithms": self.switched | {"deterministic": ""}}
        )
        return {
            words: Cuda(self.name, self.index, switches)
            for words, switches in (fewer | more).items()
        }

    def environment(self) -> dict[str, str]:
        identity = super().environment() | {
            "device": torch.cuda.get_device_name(self.index),
            "driver": driver_version(),
        }
        major, minor = torch.cuda.get_device_capability(self.index)
        identity |= {"compute capability": f"{major}.{minor}", "cuda": torch.version.cuda or ""}
        if torch.version.hip:
            identity["hip"] = torch.version.hip
        cudnn: Any = torch.backends.cudnn
        identity["cudnn"] = str(cudnn.version() or "absent")
        with self.switches():
            identity |= in_effect()
        return identity


def _why_not_compiled(index: int) -> str | None:
    """Why torch.compile cannot be used on a device that is there; None if it can."""
    if importlib.util.find_spec("triton") is None:
        return "torch.compile needs Triton for CUDA, and it is not installed (pip install triton)"
    capability = torch.cuda.get_device_capability(index)
    if torch.version.hip is None and capability < (7, 0):
        number = ".".join(map(str, capability))
        return f"torch.compile needs compute capability 7.0 or later, and the device has {number}"
    return None


def why_absent(index: int = 0) -> str | None:
    """Why ``cuda:index`` cannot be used here; None if it can. Never raises, never warns."""
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {torch.__version__} is a CPU build"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            if not torch.cuda.is_available():
                return _no_device([text_of(warning.message) for warning in caught])
            count = torch.cuda.device_count()
        except Exception as error:
            return f"looking for CUDA devices raised {told(error)}"
    if index < count:
        return None
    return (
        f"there is no cuda:{index}, only {count} device{'s' if count != 1 else ''}"
        if count
        else "no CUDA device"
    )


def _no_device(texts: list[str]) -> str:
    try:
        cuda: Any = torch.cuda
        cuda.init()  # raises, with more detail than is_available()
    except Exception as error:
        texts = [*texts, text_of(error)]
    for text in texts:
        if "too old" in text:
            return f"the NVIDIA driver is too old for this torch (CUDA {torch.version.cuda})"
        if "no NVIDIA driver" in text:
            return "no NVIDIA driver"
    reason = (
        first_line(texts[0]).removeprefix("CUDA initialization: ").split(" (Triggered")[0]
        if texts
        else ""
    )
    return f"no CUDA device{': ' + reason if reason else ''}"


def driver_version() -> str:
    """The NVIDIA driver's version such as ``550.54.15``; empty if neither pynvml nor nvidia-smi
    reports it."""
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        version = nvml.nvmlSystemGetDriverVersion()
        return version.decode() if isinstance(version, bytes) else str(version)
    with contextlib.suppress(Exception):
        tool = shutil.which("nvidia-smi") or ""
        command = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
        answer = subprocess.run(
            command, capture_output=True, encoding="utf-8", timeout=20, check=True
        )
        return first_line(answer.stdout)
    return ""
