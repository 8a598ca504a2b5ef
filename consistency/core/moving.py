"""Tensors between devices and dtypes: a move is never a cast.

One step that moves and casts is two on every device, and one wheel loses the second:
``tensor.to("cpu", torch.float64)`` returned float32 there. Casts of devices round in ways of their
own, too (float16 toward zero), and are tested as operators. So what is moved here is cast on the
CPU's side of the move: after it, or before it.
"""

from __future__ import annotations

import torch

_CPU = torch.device("cpu")


def moved(
    tensor: torch.Tensor,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    *,
    copy: bool = False,
) -> torch.Tensor:
    """``tensor`` on ``device`` (default: where it is) as ``dtype`` (default: its own), cast on the
    CPU.

    ``copy``: never the same memory. Gradients flow back as through ``Tensor.to``.
    """
    target = tensor.device if device is None else torch.device(device)
    wanted = tensor.dtype if dtype is None else dtype
    result = tensor
    if wanted != tensor.dtype:
        result = result.to(_CPU).to(wanted)
    result = result.to(target)
    return result.clone() if copy and result is tensor else result
