"""Operators that compute with Python's own numbers on the way, written again in tensors, so that
the trace sees all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import optimizers, windows

DEFINITIONS: dict[str, Callable[..., Any]] = optimizers.DEFINITIONS | windows.DEFINITIONS
