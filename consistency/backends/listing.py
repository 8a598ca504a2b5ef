"""The data that ``consistency backends`` shows of each backend."""

from __future__ import annotations

from typing import Any

from ._messages import told
from .base import Backend, availability

_VERSIONS = ("torch", "numpy", "blas", "cuda", "cudnn", "hip", "torch_directml", "macos")


def describe(backend: Backend) -> dict[str, Any]:
    """One backend as JSON data; never raises, and does not access absent devices.

    ``name``; ``available`` and, if not, ``reason``; ``device`` and ``driver`` as text;
    ``versions``, a list such as ``["torch 2.4.1", "cuda 12.1"]``; ``float64``: True, False, or None
    if unknown; ``environment``: all of it, by name.
    """
    reason = availability(backend)
    row: dict[str, Any] = {
        "name": backend.name,
        "available": reason is None,
        "reason": reason or "",
    }
    row |= {"device": "", "driver": "", "versions": [], "float64": None, "environment": {}}
    if reason is not None:
        return row
    identity = backend.identity
    row |= {
        "device": identity.get("device", ""),
        "driver": identity.get("driver", ""),
        "environment": dict(identity),
    }
    shown = [name for name in _VERSIONS if identity.get(name, "unknown") not in ("", "unknown")]
    row["versions"] = [
        identity[name] if name == "blas" else f"{name} {identity[name]}" for name in shown
    ]
    try:
        row["float64"] = backend.has_float64()
    except Exception as error:
        row["environment"]["float64"] = told(error)
    return row
