"""Summaries of fingerprints for bundles, cached in the user's folder.

Probes take seconds and give the same answers in the same environment, so a backend is probed once
per environment. A user's own backend is not cached, since its code may change unnoticed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...backends.base import Backend, availability
from ...core.files import write_json
from ...core.paths import cache
from ...core.recipe import canonical
from ...core.version import __version__
from .collect import probes, take
from .summary import MAX_ANSWERS, MAX_CHARACTERS, summary_of

LONG_SECONDS = 600.0  # a run of this length includes probes, which take some 20 s
PROBES = "CONSISTENCY_PROBES"  # environment variable: "off" disables probes that nobody requested
MAX_BYTES = 1 << 20


def before(backend: Backend) -> dict[str, str]:
    """The summary that is available without probing: the cached one for this environment, or that
    of a recording; empty if there is none."""
    if backend.is_recorded:
        return dict(backend.fingerprint)
    path = _file(backend)
    try:
        if path is None or path.stat().st_size > MAX_BYTES:
            return {}
        return usable(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return {}


def due(backend: Backend, seconds: float) -> bool:
    """Whether a run of this many seconds should end with probes of a backend without a summary."""
    if backend.is_recorded or os.environ.get(PROBES, "").lower() == "off":
        return False
    return seconds >= LONG_SECONDS


def probes_of_each() -> int:
    return len(probes())


def probe(backend: Backend, step: Callable[[str], None] | None = None) -> dict[str, str]:
    """Probe a backend and cache the summary; ``step`` gets each probe's title. Empty for an
    unavailable backend."""
    if backend.is_recorded or availability(backend):
        return {}
    stored, path = summary_of(take(backend, step=step)), _file(backend)
    if path is not None and stored:
        with contextlib.suppress(OSError):  # an unwritable cache only costs time
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, stored)
    return stored


def usable(found: Any) -> dict[str, str]:
    """A summary from an untrusted source, or an empty one if it is invalid."""
    if not isinstance(found, Mapping) or len(found) > MAX_ANSWERS:
        return {}
    pairs = list(found.items())
    if not all(
        isinstance(text, str) and len(text) <= MAX_CHARACTERS for pair in pairs for text in pair
    ):
        return {}
    return dict(pairs)


def _file(backend: Backend) -> Path | None:
    """The cache file of a built-in backend, named by everything that may change the answers; None
    for a user's own backend."""
    spec = getattr(backend, "spec", "") or backend.name
    if not type(backend).__module__.startswith("consistency.") or ".py:" in spec:
        return None
    key = canonical(
        [
            __version__,
            _probe_code_hash(),
            spec,
            backend.name,
            dict(sorted(backend.identity.items())),
        ]
    )
    return cache() / "fingerprints" / f"{hashlib.sha256(key.encode('utf-8')).hexdigest()[:32]}.json"


@functools.cache
def _probe_code_hash() -> str:
    """A hash of the probes' source code, which invalidates the cache when they change."""
    total = hashlib.sha256()
    folder = Path(__file__).parent
    for path in (*sorted(folder.glob("*.py")), *sorted((folder.parent / "summation").glob("*.py"))):
        total.update(path.read_bytes())
    return total.hexdigest()
