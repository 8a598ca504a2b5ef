"""Python environments with other versions of torch, made with venv and pip and kept in the
user's cache."""

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
    """An environment that could not be made; the message is one line."""


def version_of(text: str) -> Version:
    """Parse a version. Raises UsageError."""
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
    """The interpreter of an existing environment, or None."""
    python = python_in(place_of(version))
    return python if python.exists() else None


def made(version: str, *, arguments: Sequence[str] = ()) -> Path:
    """The interpreter of an environment with this torch, made if needed; ``arguments`` go to ``pip
    install``.

    It is made in a temporary folder and moved when it works, so that an interrupted installation is
    never used. Raises CannotInstallError with pip's own reason.
    """
    existing = kept(version)
    if existing is not None:
        return existing
    folder = place_of(version)
    temporary = folder.with_name(f"{folder.name}.{uuid.uuid4().hex[:8]}.tmp")
    title = f"torch {version_of(version)} for Python {platform.python_version()}"
    try:
        temporary.parent.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", str(temporary)], title)
        python = str(python_in(temporary))
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
        temporary.replace(folder)
    except OSError as error:
        concurrent = kept(version)  # another process was faster
        if concurrent is not None:
            return concurrent
        raise CannotInstallError(
            f"{title} cannot be installed under {folder.parent}: {error.strerror or error}"
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return python_in(folder)


def _run(command: list[str], title: str, *, seconds: float = INSTALL_SECONDS) -> None:
    try:
        process = subprocess.run(
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
    if process.returncode:
        raise CannotInstallError(
            f"{title} cannot be installed: {_reason(process.stderr or process.stdout)}"
        )


def _reason(text: str) -> str:
    """The line of pip's output that explains the failure."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return ([*errors, *lines[-1:]] or ["no reason was given"])[0][:200]
