"""Summary of a minimization in steps: ``2×32×9×9 → 1×2×1×2``, ``648 → 4 numbers``, ``layout:
contiguous``."""

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
    """The differences between two cases. Raises RecipeError for an invalid recipe."""
    old, new = prepare(before), prepare(after)
    sentences = [_shapes_text(_shapes_of(old), _shapes_of(new))]
    count = numbers_in(after)
    sentences.append(
        f"{numbers_in(before):,} → {pluralize(count, 'number')}"
        if numbers_in(before) != count
        else ""
    )
    sentences += [_nonzero_text(new), _layout_text(old, new)]
    if before.dtype != after.dtype:
        sentences.append(f"dtype: {before.dtype} → {after.dtype}")
    removed = [name for name in before.kwargs if name not in after.kwargs]
    removed += [
        "the last argument"
        if len(before.args) - len(after.args) == 1
        else f"the last {len(before.args) - len(after.args)} arguments"
    ] * (len(before.args) > len(after.args))
    if removed:
        sentences.append(f"left out: {', '.join(removed)}")
    changed = _changed_arguments(before, after)
    if changed:
        sentences.append(f"arguments: {', '.join(changed)}")
    return tuple(sentence for sentence in sentences if sentence)


def _shapes_of(materials: Materials) -> list[tuple[int, ...]]:
    return [tuple(t.shape) for t in materials.build().tensors]


def shape(sizes: Sequence[int]) -> str:
    """``2×32×9×9``; a tensor without dimensions is ``one number``."""
    return "×".join(map(str, sizes)) if sizes else "one number"


def _shapes_text(old: list[tuple[int, ...]], new: list[tuple[int, ...]]) -> str:
    if old == new:
        return ""
    join = ", ".join
    return f"{join(map(shape, old))} → {join(map(shape, new)) or 'no tensor'}"


def _nonzero_text(new: Materials) -> str:
    """``1 of them is not 0``."""
    total = sum(base.size for base in new.bases)
    nonzero = sum(int(np.count_nonzero(real_of(base))) for base in new.bases)
    return f"{nonzero} of {total} numbers not 0" if total > 1 and nonzero < total else ""


def _layout_text(old: Materials, new: Materials) -> str:
    layouts = [_special_layouts(m) for m in (old, new)]
    if layouts[0] and not layouts[1]:
        return "layout: contiguous"
    return f"layout still needed: {', '.join(layouts[1])}" if layouts[1] else ""


def _special_layouts(materials: Materials) -> list[str]:
    texts = []
    for i, tensor in enumerate(materials.build().tensors):
        # Not is_contiguous(): some kernels read the stride of a dimension of size 1.
        default_stride = torch.empty(tensor.shape, device="meta").stride()
        if tensor.stride() != default_stride or tensor.storage_offset():
            offset = f" offset {tensor.storage_offset()}" if tensor.storage_offset() else ""
            strides = (
                f" strides {list(tensor.stride())}" if tensor.stride() != default_stride else ""
            )
            texts.append(f"tensor {i}{strides}{offset}")
    return texts


def _changed_arguments(before: Case, after: Case) -> list[str]:
    """``eps 1e-05 → 1.0`` for every changed argument without tensors."""
    old, new = dict(values_of(before)), dict(values_of(after))
    texts = []
    for path, value in new.items():
        if (
            len(path) != 2
            or path not in old
            or list(tensors(value))
            or repr(value) == repr(old[path])
        ):
            continue
        name = f"{path[1]}" if path[0] == "kwargs" else f"argument {path[1]}"
        texts.append(f"{name} {_short(old[path])} → {_short(value)}")
    return texts


def _short(value: object) -> str:
    return "a tensor" if isinstance(value, Tensor) else f"{value!r:.40}"


def weight(case: Case) -> tuple[int, int, float, int]:
    """The size of a case for comparison: numbers in storages and views, nonzero numbers, their
    complexity, special layouts."""
    numbers = nonzero = special_layouts = 0
    complexity = 0.0
    materials = prepare(case)
    bases = [*materials.bases, *(c for c in materials.cotangents if c is not None)]
    for i, (tensor, base) in enumerate(zip(tensors_of(case), bases, strict=True)):
        reals = reals_of(base, tensor.dtype)
        if i < len(case.tensors):  # cotangents from the bitstream have no size
            numbers, nonzero = numbers + base.size, nonzero + int(np.count_nonzero(reals))
        complexity += sum(cost(float(v))[0] for v in reals[reals != 0.0][:64] if v != 1.0)
        special_layouts += bool(
            tensor.view
            if isinstance(tensor, TensorRecipe)
            else isinstance(tensor, Literal) and _has_special_layout(tensor)
        )
    # expanded ones count fully
    view_numbers = sum(tensor.numel() for tensor in materials.build().tensors)
    return numbers + view_numbers, nonzero, complexity, special_layouts


def _has_special_layout(tensor: Literal) -> bool:
    return not pieces_of(tensor).layout.plain
