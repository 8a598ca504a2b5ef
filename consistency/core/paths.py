"""Folders of the user's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

CACHE = "CONSISTENCY_CACHE"  # a variable that names another folder


def cache() -> Path:
    """Where to keep what can be made again: the platform's folder for that, or what
    ``CONSISTENCY_CACHE`` says."""
    chosen = os.environ.get(CACHE)
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        return (
            Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
            / "consistency"
            / "cache"
        )
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "consistency"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "consistency"
