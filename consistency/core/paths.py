"""Folders of the user's."""

from __future__ import annotations

import os
from pathlib import Path

CACHE = "CONSISTENCY_CACHE"  # a variable that names another folder


def cache() -> Path:
    """Where to keep what can be made again: the platform's folder for that, or what
    ``CONSISTENCY_CACHE`` says."""
    chosen = os.environ.get(CACHE)
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("consistency", appauthor=False)
