"""The user's folders."""

from __future__ import annotations

import os
from pathlib import Path

CACHE = "CONSISTENCY_CACHE"  # a variable that names another folder


def cache() -> Path:
    """The folder for data that can be recreated: the platform's, or ``CONSISTENCY_CACHE``."""
    chosen = os.environ.get(CACHE)
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("consistency", appauthor=False)
