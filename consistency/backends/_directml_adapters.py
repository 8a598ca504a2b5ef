"""Find DirectML adapters in a child process, because the query itself may crash where there are
none.

Without DirectX every call of torch_directml is unpredictable (an exception, or a segmentation
fault); without an adapter, touching a device is a segmentation fault. So a child process makes the
queries and prints each answer at once, and this process reads what was printed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..core.exit_status import death

LIMIT_SECONDS = 90.0  # importing torch takes long on a cold disk with a virus scanner
INSTALL = 'pip install "consistency[directml]"'
_MARK = "@adapters "
_CHILD = """
import json, os, sys

def say(**found):
    print("@adapters " + json.dumps(found), flush=True)

def ask(what, function, *args):
    say(asking=what)
    try:
        answer = function(*args)
    except BaseException as error:
        causes = [error] + [cause for cause in (error.__cause__ or error.__context__,) if cause]
        text = "; ".join((str(cause).splitlines() or [""])[0][:200] for cause in causes)
        say(failed=what, type=type(error).__name__, text=text)
        sys.exit(0)
    return answer

sys.path[:] = json.loads(sys.stdin.readline())
if os.name == "nt":
    import ctypes
    # A crash must not open a dialog that waits for somebody.
    ctypes.windll.kernel32.SetErrorMode(0x8003)
dml = ask("import", __import__, "torch_directml")
say(available=bool(ask("is_available", dml.is_available)))
count = int(ask("device_count", dml.device_count))
say(count=count)
if count > 0:
    say(names=[str(ask("device_name", dml.device_name, i)).strip("\\0 ") for i in range(count)])
    say(default=int(ask("default_device", dml.default_device)))
    supports = dml.has_float64_support
    say(float64=[bool(ask("has_float64_support", supports, i)) for i in range(count)])
say(done=True)
"""


@dataclass(frozen=True, slots=True)
class Adapters:
    """What the child found. ``reason`` explains why nothing is usable; None if ``names`` has an
    adapter."""

    reason: str | None
    names: tuple[str, ...] = ()
    float64: tuple[bool, ...] = ()
    default: int = 0

    def __str__(self) -> str:
        return ", ".join(f"{i}: {name}" for i, name in enumerate(self.names))


_told: list[Adapters] = []  # what the process that began this one has found


def adopt(found: object) -> None:
    """Take what another process of the same interpreter has found (:func:`known`), so that this one
    does not look again; None or anything else forgets it."""
    discover.cache_clear()
    _told.clear()
    if isinstance(found, dict):
        _told.append(
            Adapters(
                None,
                tuple(map(str, found["names"])),
                tuple(map(bool, found["float64"])),
                int(found["default"]),
            )
        )


def known() -> dict[str, object] | None:
    """What this process has found, as JSON data; None if it has not looked, or found nothing."""
    if not discover.cache_info().currsize:
        return None
    found = discover()
    if found.reason is not None:
        return None
    return {"names": found.names, "float64": found.float64, "default": found.default}


@functools.cache
def discover() -> Adapters:
    """The adapters of this machine, cached. Takes seconds if torch_directml is installed, otherwise
    nothing."""
    if _told:
        return _told[0]
    if not _installed():
        return Adapters(f"torch_directml is not installed ({INSTALL})")
    if not sys.executable:
        return Adapters("no Python executable is known that could look for adapters")
    try:
        return _read(*_ask())
    except OSError as error:
        return Adapters(f"no child process could be started to look for adapters: {error}")


def _installed() -> bool:
    try:
        return importlib.util.find_spec("torch_directml") is not None
    except (ImportError, ValueError):  # a module added to sys.modules by hand
        return "torch_directml" in sys.modules


def _ask() -> tuple[int | None, str]:
    """The child's exit status (None: it did not end in time) and its output.

    It ignores PYTHON… variables and the current folder but has this process's module path, so that
    it finds the same torch_directml.
    """
    child = subprocess.Popen(
        [sys.executable, "-I", "-X", "utf8", "-c", _CHILD],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8",
        errors="replace",
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )  # fmt: skip
    try:
        output, _ = child.communicate(
            json.dumps([str(Path(entry).absolute()) for entry in sys.path]) + "\n",
            timeout=LIMIT_SECONDS,
        )
        return child.returncode, output
    except subprocess.TimeoutExpired:
        child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return None, child.communicate(timeout=10)[0]
        return None, ""  # stuck in a driver; it ends when the driver lets go


def _read(status: int | None, output: str) -> Adapters:
    data: dict[str, Any] = {}
    for line in output.splitlines():
        if line.startswith(_MARK):
            with contextlib.suppress(ValueError):  # an incomplete line of a child that crashed
                data |= json.loads(line.removeprefix(_MARK))
    where = data.get("asking", "start")
    if status is None:
        return Adapters(
            f"looking for adapters did not answer within {LIMIT_SECONDS:g} s (in {where})"
        )
    if "failed" in data:
        return Adapters(_failure(data))
    if status != 0 or not data.get("done"):
        return Adapters(f"died while looking for adapters ({death(status)}, in {where})")
    if not data["available"] or data["count"] <= 0:
        return Adapters(
            "no adapter: DirectX is here, but no DirectX 12 graphics card that it would list"
        )
    return Adapters(None, tuple(data["names"]), tuple(data["float64"]), data["default"])


def _failure(data: dict[str, Any]) -> str:
    what, kind, text = data["failed"], data["type"], data["text"]
    description = f"{kind}: {text}" if text else kind
    if what != "import":
        return f"no working DirectX: {what}() raised {description}"
    if "d3d12" in text or "dxcore" in text.lower():
        return f"no DirectX here (torch-directml runs on Windows and WSL only; {description})"
    return f"torch_directml cannot be imported: {description}{_mismatch()}"


def _mismatch() -> str:
    """`` (it needs torch==2.4.1; this is 2.13.0)`` if the installed package requires another
    torch."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for requirement in importlib.metadata.requires("torch-directml") or ():
            name, _, version = requirement.partition("==")
            if (
                name.strip() == "torch"
                and version
                and torch.__version__.split("+")[0] != version.strip()
            ):
                return f" (it needs torch=={version.strip()}; this is {torch.__version__})"
    return ""
