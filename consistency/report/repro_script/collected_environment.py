"""What torch's template of an issue asks for: the output of its own command, which takes seconds.

It is collected once an hour and kept in the user's cache (:func:`consistency.core.paths.cache`),
under a name made of what may change it: torch, the interpreter, what was installed, the start of
the machine, the visible devices.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import psutil
import torch

from ...core.files import write_text
from ...core.paths import cache
from ...core.text import printable

COMMAND = "python -m torch.utils.collect_env"
_SECONDS, _MAX = 30.0, 8_000  # to wait; characters
_FRESH = 3600.0  # seconds
_LENGTHY = ("Flags:", "Vulnerability ")  # of the processor
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


@functools.cache
def collected() -> str:
    """What ``python -m torch.utils.collect_env`` prints on this machine; the command itself if it
    fails."""
    file = _file()
    if file is not None and (kept := _kept(file)):
        return kept
    text = _collect()
    if text and file is not None:
        with contextlib.suppress(OSError):  # a cache that cannot be written only costs time
            file.parent.mkdir(parents=True, exist_ok=True)
            write_text(file, text)
    return text or f"the output of: {COMMAND}"


def _collect() -> str:
    """The output, without what is lengthy; empty if the command fails."""
    try:
        found = subprocess.run(
            [sys.executable, "-P", "-m", "torch.utils.collect_env"], stdin=subprocess.DEVNULL,
            capture_output=True, encoding="utf-8", errors="replace", timeout=_SECONDS, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = [line for line in found.stdout.splitlines() if not line.startswith(_LENGTHY)]
    start = next((i for i, line in enumerate(lines) if line.startswith("PyTorch version")), 0)
    return _told("\n".join(lines[start:]))


def _told(text: str) -> str:
    return printable(text[:_MAX]).strip()


def _kept(file: Path) -> str:
    """What was collected within the last hour; empty if nothing was."""
    try:
        age = time.time() - file.stat().st_mtime
        with file.open(encoding="utf-8") as stream:
            return _told(stream.read(_MAX)) if 0.0 <= age <= _FRESH else ""
    except (OSError, ValueError):
        return ""


def _file() -> Path | None:
    """The file that holds it; None where what was installed cannot be told."""
    installed = Path(sysconfig.get_path("purelib"))
    try:
        installed_at = installed.stat().st_mtime_ns
    except OSError:
        return None
    key = (
        torch.__version__, sys.executable, platform.version(), int(psutil.boot_time()),
        str(installed), installed_at, *(os.environ.get(name) for name in _VARIABLES),
    )  # fmt: skip
    name = hashlib.sha256(repr(key).encode("utf-8")).hexdigest()[:32]
    return cache() / "collected" / f"{name}.txt"
