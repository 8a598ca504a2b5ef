"""The numbers that the gradients of a case are taken against."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from ..core import dtypes
from ..core.bits import to_tensor
from ..core.model import Case
from ..core.recipe import DType
from ..core.tiling import repeated
from ..generate.fill import fill
from ..generate.materialize import Arguments
from ..generate.value_classes import Raw

_FEW = 1 << 14  # numbers that are kept


def differentiated(
    result: Iterable[Any], arguments: Arguments
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The tensors that are differentiated, each with its cotangent: the case's literal one, or one
    from the bitstream."""
    case, cotangents = arguments.materials.case, []
    for position, root in enumerate(result):
        if not isinstance(root, torch.Tensor) or not root.requires_grad:
            continue
        if not case.cotangents:
            cotangents.append((root, _repeated_cotangent(root, position, arguments)))
            continue
        gradient = arguments.cotangent(position)
        if gradient is not None:
            if arguments.adjust is not None and (
                gradient.dtype.is_floating_point or gradient.is_complex()
            ):
                wide = torch.complex128 if gradient.is_complex() else torch.float64
                gradient = arguments.adjust(gradient.to(wide), len(arguments.tensors))
            cotangents.append((root, gradient.to(root.dtype).reshape(root.shape).to(root.device)))
    return cotangents


def _repeated_cotangent(root: torch.Tensor, position: int, arguments: Arguments) -> torch.Tensor:
    """The drawn cotangent of a return value; in a tiled case that of one repetition, repeated."""
    case = arguments.materials.case
    tiling = case.tiling
    dim = tiling.outs[position] if tiling is not None and position < len(tiling.outs) else None
    if tiling is None or dim is None or dim >= root.ndim or root.shape[dim] % tiling.size:
        return cotangent(root, case.cotangent, arguments)
    period = root.shape[dim] // tiling.size * tiling.period
    tile = root.detach().narrow(dim, 0, period)
    return repeated(cotangent(tile, case.cotangent, arguments), dim, tiling)


def cotangent(root: torch.Tensor, stop: int, arguments: Arguments) -> torch.Tensor:
    """The cotangent of a gradient: uniform in [-1, 1), exact in the case's dtype and
    in those of its tensors, shaped like ``root``, in the layout that the case asks for.

    Where ``adjust`` changes its numbers it is contiguous: then each element has its own."""
    layout = arguments.materials.case.cotangent_layout
    whole = _contiguous_cotangent(root, stop, arguments, layout in ("expanded", "constant"))
    if arguments.adjust is not None or not whole.numel():
        return whole
    if layout == "expanded":
        return whole.reshape(-1)[:1].reshape((1,) * root.ndim).expand(root.shape)
    return _outermost_last(whole) if layout == "transposed" else whole


def _outermost_last(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers, the last dimension outermost in memory."""
    reverse = tuple(reversed(range(tensor.ndim)))
    return tensor.permute(reverse).contiguous().permute(reverse)


def _contiguous_cotangent(
    root: torch.Tensor, stop: int, arguments: Arguments, constant: bool
) -> torch.Tensor:
    """The cotangent's numbers, or the last one for all elements: the first may be blank."""
    dtype = arguments.materials.case.dtype
    if dtype in dtypes.PARTS:
        return _complex_cotangent(root, dtype, stop, arguments, constant)
    named = dtypes.name_of(root.dtype)
    format_name = dtypes.coarsest((_coarsest(arguments.materials.case), named))
    parts = 2 if root.is_complex() else 1
    raw = _uniform(root.numel() * parts, format_name, stop)
    raw = np.tile(raw[-parts:], root.numel()) if constant else raw.copy()
    flat = to_tensor(raw, format_name)
    if arguments.adjust is not None:
        flat = arguments.adjust(flat.to(torch.float64), len(arguments.tensors))
    if root.is_complex():
        flat = torch.view_as_complex(flat.to(torch.float64).reshape(-1, 2))
    return flat.to(root.dtype).reshape(root.shape).to(root.device)


def _coarsest(case: Case) -> str:
    """The format of the fewest digits that a call names, of tensors or as an argument: its numbers
    are the same in whatever the result's is, here and in the reference."""
    asked = (arg.name for arg in (*case.args, *case.kwargs.values()) if isinstance(arg, DType))
    own = case.dtype if case.dtype in dtypes.FORMATS else "float32"
    named = {own, *(tensor.dtype for tensor in case.tensors), *asked}
    return own if len(named) == 1 else dtypes.coarsest(sorted(named))


def _uniform(count: int, dtype: str, stop: int) -> Raw:
    """Numbers in [-1, 1), not to be written to: each backend and the reference ask for them."""
    return (_few if count <= _FEW else _drawn)(count, dtype, stop)


def _drawn(count: int, dtype: str, stop: int) -> Raw:
    return fill(count, dtype, ("uniform", -1.0, 1.0), stop)


_few = functools.lru_cache(16)(_drawn)


def _complex_cotangent(
    root: torch.Tensor, dtype: str, stop: int, arguments: Arguments, constant: bool
) -> torch.Tensor:
    """The same for a complex case. A real result takes the real parts; real moduli take the
    moduli."""
    raw = _uniform(root.numel(), dtype, stop)
    flat = torch.from_numpy(np.tile(raw[-1:], root.numel()) if constant else raw.copy())
    if arguments.adjust is not None:
        flat = arguments.adjust(flat.to(torch.complex128), len(arguments.tensors))
    if flat.is_complex() and not root.is_complex():
        flat = flat.real
    return flat.to(root.dtype).reshape(root.shape).to(root.device)
