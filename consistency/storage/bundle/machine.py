"""The machine of a run, anonymized: the host is a hash, unless the user gives a label."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

MAX_LABEL = 80  # characters
_FEATURES = re.compile(r"sse4_?[12]|fma3?|f16c|i8mm|bf16|rvv|neon|(avx|amx|asimd|sve)[a-z0-9_]*")
# Variables that affect numbers of every backend and so distinguish environments.
_LABELED = ("ATEN_CPU_CAPABILITY", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA", "NVIDIA_TF32_OVERRIDE")


def machine() -> dict[str, Any]:
    """Properties that may affect numbers and that all backends of a run share, as JSON data;
    unknown ones are omitted.

    ``memory`` is in bytes; ``capability`` is the subset of ``vector sets`` that torch's kernels
    use.
    """
    import psutil

    properties: dict[str, Any] = {
        "host": host(),
        "os": platform.system(),
        "os version": _system_version(),
    }
    properties |= {
        "architecture": platform.machine(),
        "cpu": _cpu(),
        "vector sets": vector_sets(),
        "capability": capability(),
    }
    properties |= {"cores": os.cpu_count() or 0, "memory": int(psutil.virtual_memory().total)}
    properties |= {"python": platform.python_version(), "numpy": np.__version__}
    return {key: value for key, value in properties.items() if value}


def host() -> str:
    """Twelve hexadecimal digits that identify this machine without revealing its name."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts.append(Path("/etc/machine-id").read_text(encoding="ascii", errors="replace").strip())
    return hashlib.sha256("/".join(["consistency", *parts]).encode("utf-8", "replace")).hexdigest()[
        :12
    ]


def label_of(about: Mapping[str, Any], versions: str) -> str:
    """The default label of an environment, such as
    ``linux-x86_64-avx512-torch2.13-py3.12-1f03ab``.

    It does not contain driver and patch versions, which change between nightly runs, nor the host
    of ephemeral machines.
    """
    short = ".".join(str(versions).partition("+")[0].split(".")[:2])
    python = ".".join(str(about.get("python", "")).split(".")[:2])
    parts = [about.get("os"), about.get("architecture"), about.get("capability")]
    parts += [f"torch{short}" if short else "", f"py{python}" if python else ""]
    parts += [f"{name}={os.environ[name]}" for name in _LABELED[1:] if os.environ.get(name)]
    if os.environ.get("RUNNER_ENVIRONMENT") != "github-hosted":
        parts.append(str(about.get("host", ""))[:6])
    return (
        tidy(
            "-".join(
                str(part).lower() if i < 3 else str(part) for i, part in enumerate(parts) if part
            )
        )
        or "unknown"
    )


def tidy(label: str) -> str:
    """A label as one printable line of bounded length."""
    return " ".join("".join(c if c.isprintable() else " " for c in label).split())[:MAX_LABEL]


def capability() -> str:
    """The CPU capability that torch's kernels use (respecting ``ATEN_CPU_CAPABILITY``): DEFAULT,
    AVX2, AVX512 …"""
    import torch

    return str(torch.backends.cpu.get_cpu_capability()) if hasattr(torch.backends, "cpu") else ""


def vector_sets() -> str:
    """The CPU's vector instruction sets as listed by Linux, elsewhere by NumPy."""
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        listed = re.search(r"^(?:flags|Features|isa)\s*:\s*(.+)$", text, re.MULTILINE)
        if listed:
            return " ".join(
                sorted({name for name in listed[1].lower().split() if _FEATURES.fullmatch(name)})
            )
    features: Mapping[str, bool] = {}
    for name in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        features = getattr(sys.modules.get(name), "__cpu_features__", None) or features
    return " ".join(
        sorted(
            name.lower()
            for name, supported in features.items()
            if supported and _FEATURES.fullmatch(name.lower())
        )
    )


def _system_version() -> str:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            return (
                f"{platform.freedesktop_os_release().get('PRETTY_NAME', 'Linux')}, kernel "
                f"{platform.release()}"
            )
    return platform.mac_ver()[0] or f"{platform.release()} {platform.version()}"


def _cpu() -> str:
    """The CPU's model, or Python's name for the processor."""
    with contextlib.suppress(Exception):
        if sys.platform == "linux":
            text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
            match = re.search(r"^(?:model name|Model|Hardware)\s*:\s*(.+)$", text, re.MULTILINE)
            if match:
                return match[1].strip()
        elif sys.platform == "darwin":
            command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(
                command, capture_output=True, encoding="utf-8", timeout=5, check=True
            ).stdout.strip()
        elif sys.platform == "win32":
            import winreg

            with winreg.OpenKey(
                winreg.HKEY_LOCAL_MACHINE, r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
            ) as key:
                return str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip()
    return platform.processor() or platform.machine()
