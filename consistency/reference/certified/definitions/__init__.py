"""Operators that compute with Python numbers, rewritten in tensors, so that the trace covers every
step; and those whose reference settles what no definition does, so that only torch's own steps are
proved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import optimizers, windows

# How whole numbers of a range are rounded, and where slices with NaN come, is left open.
_OPEN: dict[str, Callable[..., Any]] = {"arange": torch.arange, "unique": torch.unique}

DEFINITIONS: dict[str, Callable[..., Any]] = optimizers.DEFINITIONS | windows.DEFINITIONS | _OPEN
