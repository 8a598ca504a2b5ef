"""Autograd's zeros: what it passes on as a gradient that is 0, such as that of ``sgn``, has no
memory, and whoever reads it, as a dispatch mode's operators do, ends the process."""

from __future__ import annotations

from typing import Any

import torch


def with_memory(value: Any) -> Any:
    """The value, or zeros that have memory if it is a tensor of such zeros."""
    if not isinstance(value, torch.Tensor) or not value._is_zerotensor():
        return value
    return torch.zeros(value.shape, dtype=value.dtype, device=value.device)
