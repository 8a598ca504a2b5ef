"""What became of a case, in steps for a person: ``2×32×9×9 → 1×2×1×2``, ``648 → 4 numbers``,
``layout: contiguous``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ...core.dtypes import real_of
from ...core.model import Case
from ...core.recipe import Literal, TensorRecipe, tensors
from ...core.text import pluralize
from ...generate.materialize import Materials, prepare
from .arguments import values_of
from .elements import cost
from .tensor_edits import Tensor, numbers_in, pieces_of, reals_of, tensors_of


def steps(before: Case, after: Case) -> tuple[str, ...]:
    """What distinguishes ``after`` from ``before``. Raises RecipeError for a recipe that makes no
    sense."""
    old, new = prepare(before), prepare(after)
    found = [_shapes(_shapes_of(old), _shapes_of(new))]
    count = numbers_in(after)
    found.append(
        f"{numbers_in(before):,} → {pluralize(count, 'number')}"
        if numbers_in(before) != count
        else ""
    )
    found += [_nonzero(new), _layout(old, new)]
    if before.dtype != after.dtype:
        found.append(f"dtype: {before.dtype} → {after.dtype}")
    gone = [name for name in before.kwargs if name not in after.kwargs]
    gone += [
        "the last argument"
        if len(before.args) - len(after.args) == 1
        else f"the last {len(before.args) - len(after.args)} arguments"
    ] * (len(before.args) > len(after.args))
    if gone:
        found.append(f"left out: {', '.join(gone)}")
    changed = _arguments(before, after)
    if changed:
        found.append(f"arguments: {', '.join(changed)}")
    return tuple(words for words in found if words)


def _shapes_of(materials: Materials) -> list[tuple[int, ...]]:
    return [tuple(t.shape) for t in materials.build().tensors]


def shape(sizes: Sequence[int]) -> str:
    """``2×32×9×9``; a tensor without dimensions is ``one number``."""
    return "×".join(map(str, sizes)) if sizes else "one number"


def _shapes(old: list[tuple[int, ...]], new: list[tuple[int, ...]]) -> str:
    if old == new:
        return ""
    many = ", ".join
    return f"{many(map(shape, old))} → {many(map(shape, new)) or 'no tensor'}"


def _nonzero(new: Materials) -> str:
    """``1 of them is not 0``."""
    total = sum(base.size for base in new.bases)
    rest = sum(int(np.count_nonzero(real_of(base))) for base in new.bases)
    return f"{rest} of {total} numbers not 0" if total > 1 and rest < total else ""


def _layout(old: Materials, new: Materials) -> str:
    odd = [_odd(m) for m in (old, new)]
    if odd[0] and not odd[1]:
        return "layout: contiguous"
    return f"layout still needed: {', '.join(odd[1])}" if odd[1] else ""


def _odd(materials: Materials) -> list[str]:
    found = []
    for i, tensor in enumerate(materials.build().tensors):
        usual = torch.empty(
            tensor.shape, device="meta"
        ).stride()  # a size of 1 may have any stride, and some kernels look at it
        if tensor.stride() != usual or tensor.storage_offset():
            offset = f" offset {tensor.storage_offset()}" if tensor.storage_offset() else ""
            strides = f" strides {list(tensor.stride())}" if tensor.stride() != usual else ""
            found.append(f"tensor {i}{strides}{offset}")
    return found


def _arguments(before: Case, after: Case) -> list[str]:
    """``eps 1e-05 → 1.0`` for every argument without tensors that is another one now."""
    old, new = dict(values_of(before)), dict(values_of(after))
    found = []
    for path, value in new.items():
        if (
            len(path) != 2
            or path not in old
            or list(tensors(value))
            or repr(value) == repr(old[path])
        ):
            continue
        name = f"{path[1]}" if path[0] == "kwargs" else f"argument {path[1]}"
        found.append(f"{name} {_short(old[path])} → {_short(value)}")
    return found


def _short(value: object) -> str:
    return "a tensor" if isinstance(value, Tensor) else f"{value!r:.40}"


def weight(case: Case) -> tuple[int, int, float, int]:
    """How large a case is: numbers in memory and in views of it, those that are not 0, how hard
    they are to read, layouts."""
    numbers = nonzero = odd = 0
    hard = 0.0
    materials = prepare(case)
    bases = [*materials.bases, *(c for c in materials.cotangents if c is not None)]
    for i, (tensor, base) in enumerate(zip(tensors_of(case), bases, strict=True)):
        reals = reals_of(base, tensor.dtype)
        if i < len(case.tensors):  # cotangents from the bitstream cannot be counted, so none are
            numbers, nonzero = numbers + base.size, nonzero + int(np.count_nonzero(reals))
        hard += sum(cost(float(v))[0] for v in reals[reals != 0.0][:64] if v != 1.0)
        odd += bool(
            tensor.view
            if isinstance(tensor, TensorRecipe)
            else isinstance(tensor, Literal) and _strided(tensor)
        )
    shown = sum(
        tensor.numel() for tensor in materials.build().tensors
    )  # many, where few are expanded
    return numbers + shown, nonzero, hard, odd


def _strided(tensor: Literal) -> bool:
    return not pieces_of(tensor).layout.plain
