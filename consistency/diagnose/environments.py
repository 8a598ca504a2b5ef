"""Python environments that hold another torch: made once with venv and pip, kept in the user's
cache, and found again."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

from packaging.version import InvalidVersion, Version

from ..core.paths import cache
from ..errors import ConsistencyError, UsageError

INSTALL_SECONDS = 3600.0
ASK_SECONDS = 120.0


class CannotInstallError(ConsistencyError):
    """An environment that could not be made, and why in one line."""


def version_of(text: str) -> Version:
    """A version as pip spells it. Raises UsageError."""
    try:
        return Version(text.strip())
    except InvalidVersion:
        raise UsageError(f"{text!r:.60} is no version of torch; write one such as 2.4.1") from None


def python_in(folder: Path) -> Path:
    """The interpreter of the virtual environment in ``folder``."""
    return folder / "Scripts" / "python.exe" if os.name == "nt" else folder / "bin" / "python"


def place_of(version: str) -> Path:
    """The folder of the environment with this torch, for this interpreter's version of Python."""
    return (
        cache()
        / "environments"
        / f"torch-{version_of(version)}-py{sys.version_info.major}.{sys.version_info.minor}"
    )


def kept(version: str) -> Path | None:
    """The interpreter of an environment that is there already, or None."""
    python = python_in(place_of(version))
    return python if python.exists() else None


def made(version: str, *, arguments: Sequence[str] = ()) -> Path:
    """The interpreter of an environment with this torch, made now if it is not there; ``arguments``
    go to ``pip install``.

    It is made beside its place and moved there when it works, so that what was interrupted is never
    taken for one. Raises CannotInstallError with pip's own reason.
    """
    found = kept(version)
    if found is not None:
        return found
    place = place_of(version)
    scratch = place.with_name(f"{place.name}.{uuid.uuid4().hex[:8]}.tmp")
    title = f"torch {version_of(version)} for Python {platform.python_version()}"
    try:
        scratch.parent.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", str(scratch)], title)
        python = str(python_in(scratch))
        _run(
            [
                python,
                "-m",
                "pip",
                "install",
                "--quiet",
                *arguments,
                f"torch=={version_of(version)}",
                "numpy",
            ],
            title,
        )
        _run([python, "-c", "import torch, numpy"], title, seconds=ASK_SECONDS)
        scratch.replace(place)
    except OSError as error:
        other = kept(version)  # another process was faster
        if other is not None:
            return other
        raise CannotInstallError(
            f"{title} cannot be installed under {place.parent}: {error.strerror or error}"
        ) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return python_in(place)


def _run(command: list[str], title: str, *, seconds: float = INSTALL_SECONDS) -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise CannotInstallError(
            f"{title} cannot be installed: it took longer than {seconds:.0f} s"
        ) from None
    if done.returncode:
        raise CannotInstallError(
            f"{title} cannot be installed: {_reason(done.stderr or done.stdout)}"
        )


def _reason(text: str) -> str:
    """The line of pip's output that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return ([*errors, *lines[-1:]] or ["no reason was given"])[0][:200]
