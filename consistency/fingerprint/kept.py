"""What a run keeps of a backend's fingerprint: a few lines beside what the backend ran on."""

from __future__ import annotations

from ..backends.base import Backend, availability
from .card import take
from .sections import short

AFTER_SECONDS = 30.0  # of a run: shorter ones have no time for probes


def lines_of(backend: Backend) -> dict[str, str]:
    """The short form of a fingerprint; empty for a backend whose results were recorded elsewhere, or that is gone."""
    if backend.stored or availability(backend):
        return {}
    return short(take(backend))
