"""What bundles keep of a backend's fingerprint: a few lines beside what the backend ran on.

Probes cost seconds and find the same as long as the environment is the same, so that their answers
are kept in the user's cache: a backend is probed once in each environment. Of a user's own backend
nobody knows whether its code is still the same.
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

LONG_SECONDS = 30.0  # of a run: long enough for probes, whatever else
PROBES = (
    "CONSISTENCY_PROBES"  # a variable: where it says "off", nothing is probed that nobody asked for
)
MAX_BYTES = 1 << 20


def before(backend: Backend) -> dict[str, str]:
    """What is known without asking: of the same backend in the same environment, or as a worker
    elsewhere told; else nothing."""
    if backend.is_recorded:
        return dict(backend.fingerprint)
    path = _file(backend)
    try:
        if path is None or path.stat().st_size > MAX_BYTES:
            return {}
        return usable(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return {}


def due(backend: Backend, seconds: float, budget: float | None) -> bool:
    """Whether a run that took so many seconds should end with probes of a backend of which nothing
    is known."""
    if backend.is_recorded or os.environ.get(PROBES, "").lower() == "off":
        return False
    return seconds >= LONG_SECONDS or (budget is None and _file(backend) is not None)


def probes_of_each() -> int:
    return len(probes())


def probe(backend: Backend, step: Callable[[str], None] | None = None) -> dict[str, str]:
    """Ask, and keep the answers for the next time; ``step`` is told each probe. Nothing of a
    backend that cannot be asked."""
    if backend.is_recorded or availability(backend):
        return {}
    stored, path = summary_of(take(backend, step=step)), _file(backend)
    if path is not None and stored:
        with contextlib.suppress(OSError):  # such a home costs the next run some seconds
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, stored)
    return stored


def usable(found: Any) -> dict[str, str]:
    """A summary that came from elsewhere, or nothing where it is none."""
    if not isinstance(found, Mapping) or len(found) > MAX_ANSWERS:
        return {}
    pairs = list(found.items())
    if not all(
        isinstance(text, str) and len(text) <= MAX_CHARACTERS for pair in pairs for text in pair
    ):
        return {}
    return dict(pairs)


def _file(backend: Backend) -> Path | None:
    """Where the answers of a backend of ours are kept, by all that may change them; None for a
    user's own."""
    spec = getattr(backend, "spec", "") or backend.name
    if not type(backend).__module__.startswith("consistency.") or ".py:" in spec:
        return None
    known = canonical(
        [__version__, _probes(), spec, backend.name, dict(sorted(backend.identity.items()))]
    )
    return (
        cache() / "fingerprints" / f"{hashlib.sha256(known.encode('utf-8')).hexdigest()[:32]}.json"
    )


@functools.cache
def _probes() -> str:
    """A hash of the probes themselves: other ones find out other things."""
    total = hashlib.sha256()
    here = Path(__file__).parent
    for path in (*sorted(here.glob("*.py")), *sorted((here.parent / "summation").glob("*.py"))):
        total.update(path.read_bytes())
    return total.hexdigest()
