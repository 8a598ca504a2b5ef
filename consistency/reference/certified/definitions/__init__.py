"""Operators that compute with Python numbers, rewritten in tensors, so that the trace covers every
step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import optimizers, windows

DEFINITIONS: dict[str, Callable[..., Any]] = optimizers.DEFINITIONS | windows.DEFINITIONS
