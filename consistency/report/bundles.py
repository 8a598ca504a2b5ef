"""The writer of bundles with a folder per failure, which has a script and the text of an issue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..engine.bundle_writer import BundleWriter
from . import repro_script


def writer(
    folder: Path, *, resume: bool = False, label: str = "",
    about: Mapping[str, Any] | None = None, own: bool = True, bounded: bool = False,
) -> BundleWriter:  # fmt: skip
    """A handler of a run's events; the arguments are those of
    :class:`consistency.engine.bundle_writer.BundleWriter`. ``bounded``: cases are from elsewhere,
    and the folders of failures are written by a process with bounds."""
    from .foreign_failures import Writer

    keep = Writer() if bounded else repro_script.write
    return BundleWriter(folder, resume=resume, label=label, about=about, keep_failure=keep, own=own)
