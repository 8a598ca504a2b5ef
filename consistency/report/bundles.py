"""The writer of bundles with a folder per failure, which has a script and the text of an issue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..engine.bundle_writer import BundleWriter
from . import repro_script


def writer(
    folder: Path, *, resume: bool = False, label: str = "", about: Mapping[str, Any] | None = None
) -> BundleWriter:
    """A handler of a run's events; the arguments are those of
    :class:`consistency.engine.bundle_writer.BundleWriter`."""
    return BundleWriter(
        folder, resume=resume, label=label, about=about, keep_failure=repro_script.write
    )
