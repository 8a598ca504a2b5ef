"""Faults that real devices were seen to have: lost writes, dropped duplicates, a biased variance,
integers that saturate.

Each is particular enough to be asked for before anything more general, which may explain it by
accident.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch

from ...backends._outputs import _against, _limited
from ...generate.materialize import Arguments
from .access import substituted
from .context import REFUSALS, Predicted, Scene, Suspect, Suspects
from .precision import rounded

VARIANCES = ("var", "std", "var_mean", "std_mean")
_ADDING = ("scatter_add", "index_add", "index_put")
_WITH_BETA = ("addmm", "addmv", "addbmm", "baddbmm", "addr")
_HALF_BITS = 11


def suspects(scene: Scene) -> Suspects:
    name = scene.operator.name
    yield from _lost_writes(scene)
    yield from _duplicates(scene, name.rstrip("_"))
    if name in VARIANCES and not scene.backward:
        words = f"{name} divides by n instead of n − 1"
        yield Suspect(
            "biased-variance",
            words,
            functools.partial(scene.with_call, _as_they_are, functools.partial(_biased, name)),
        )
        if scene.dtype == "float16":
            yield Suspect("biased-variance", words, functools.partial(_biased_in_half, scene))
    if scene.special:
        yield from _special(scene, name)
    if scene.whole:
        yield from _integers(scene)
    if name.startswith("nn.functional.conv_transpose"):
        words = "what output_padding adds is left zero"
        yield Suspect(
            "output-padding-zero", words, functools.partial(_unpadded, scene, int(name[-2]))
        )
    if len(scene.shape) > 1 and not scene.backward and np.ptp(scene.actual) > 0.0:
        for dims in range(1, len(scene.shape)):
            yield Suspect(
                "first-everywhere",
                "the first row in place of every row",
                functools.partial(_first_row, scene, dims),
            )


def _as_they_are(arguments: Arguments) -> tuple[list[Any], dict[str, Any]]:
    return list(arguments.args), dict(arguments.kwargs)


def _lost_writes(scene: Scene) -> Suspects:
    """The storage that is written to (or the view of it that is returned), as it was before; or
    where some elements of it are."""
    position = _written(scene)
    if position is None:
        return
    arguments = scene.reference.arguments
    base, view = arguments.bases[position], arguments.tensors[position]
    name = scene.reference.outcome.outputs[scene.index].name
    before = (base if name.startswith("arg/") else view).detach().to(torch.float64).reshape(-1)
    whole = (
        view.is_contiguous()
        and view.numel() == base.numel()
        and scene.operator.name != "__setitem__"
    )
    what = "what is written is" if whole else "writes to the view are"
    if before.numel() != scene.expected.size:
        return
    yield Suspect(
        "lost-write", f"{what} lost", functools.partial(scene.outputs, before.reshape(scene.shape))
    )
    old = before.numpy()
    kept = scene.guilty & ((scene.actual == old) | (np.isnan(scene.actual) & np.isnan(old)))
    count, wrong = int(np.count_nonzero(kept)), int(np.count_nonzero(scene.guilty))
    if wrong and count == wrong:
        text = f"{what} lost for {count} of {view.numel()} elements"
        yield Suspect(
            "lost-write",
            text,
            functools.partial(scene.outputs, np.where(kept, old, scene.expected)),
        )


def _written(scene: Scene) -> int | None:
    """The position of the tensor that the flagged output shows after it was written to; None where
    it shows none."""
    outputs, mutates = scene.reference.outcome.outputs, scene.operator.mutates
    if scene.backward or not mutates or scene.index >= len(outputs):
        return None
    kind, _, number = outputs[scene.index].name.partition("/")
    return (
        int(number) if kind == "arg" else mutates[0] if "inplace" in scene.operator.traits else None
    )


def _duplicates(scene: Scene, name: str) -> Suspects:
    """Of several contributions to one place only the last, or the first, arrives."""
    words = "duplicate indices do not accumulate"
    for first in (False, True):
        if scene.backward:
            if scene.operator.error.kind == "exact":
                yield Suspect(
                    "duplicates-dropped", words, functools.partial(_read_once, scene, first)
                )
        elif name in _ADDING:
            added = functools.partial(_added_once, name, scene.operator.name.endswith("_"), first)
            yield Suspect(
                "duplicates-dropped", words, functools.partial(scene.with_call, _as_they_are, added)
            )


def _added_once(
    name: str, inplace: bool, first: bool, x: torch.Tensor, *args: Any, **kwargs: Any
) -> torch.Tensor:
    def turned(tensor: torch.Tensor, dim: int) -> torch.Tensor:
        return tensor.flip(dim) if first else tensor

    if name == "index_put":
        indices, values = args[0], args[1]
        result = x.index_put(indices, x[tuple(indices)] + values)
    else:
        dim, index, source = args[0], args[1], args[2]
        if name == "index_add":
            added = x.index_select(dim, index) + kwargs.get("alpha", 1) * source
            result = x.index_copy(dim, turned(index, 0), turned(added, dim))
        else:
            added = x.gather(dim, index) + source[tuple(slice(n) for n in index.shape)]
            result = x.scatter(dim, turned(index, dim), turned(added, dim))
    return x.copy_(result) if inplace else result


def _read_once(scene: Scene, first: bool) -> Predicted:
    """The gradient of what only moves numbers: each place gets one of the cotangents that belong to
    it."""
    arguments = scene.reference.materials.build("float64", gradients=scene.operator.leaves)
    leaves = [i for i, tensor in enumerate(arguments.tensors) if tensor.requires_grad]
    ((_, cotangent),) = _against(
        _limited(scene.operator(*arguments.args, **arguments.kwargs)), arguments
    )
    leaf = leaves[scene.index]
    shape = arguments.tensors[leaf].shape
    places = torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)
    args, kwargs = substituted(arguments, {leaf: places})
    (read,) = [
        item for item in _limited(scene.operator(*args, **kwargs)) if isinstance(item, torch.Tensor)
    ]
    where, given = read.reshape(-1).to(torch.int64), cotangent.reshape(-1)
    if where.numel() != given.numel() or not bool(((where >= 0) & (where < places.numel())).all()):
        return []
    gradient = np.zeros(places.numel())
    order = slice(None, None, -1) if first else slice(None)
    gradient[where.numpy()[order]] = given.numpy()[order]
    return scene.outputs(gradient)


def _biased(
    name: str,
    x: torch.Tensor,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    **kwargs: Any,
) -> Any:
    dim = None if isinstance(dim, bool) else dim
    return getattr(torch, name)(x, dim, correction=0, keepdim=keepdim)


def _biased_in_half(scene: Scene) -> Predicted:
    """The same with every step cut to float16, as hardware does that rounds toward zero."""
    args, kwargs = scene.reference.arguments.args, scene.reference.arguments.kwargs
    dim = kwargs.get("dim", args[1] if len(args) > 1 and not isinstance(args[1], bool) else None)
    dims = list(range(args[0].ndim)) if dim is None else dim
    cut = functools.partial(rounded, bits=_HALF_BITS, truncate=True)
    centred = cut(args[0] - cut(args[0].mean(dims, keepdim=True)))
    result = cut(cut(centred * centred).mean(dims))
    return scene.outputs(
        (cut(result.sqrt()) if scene.operator.name.startswith("std") else result).reshape(
            scene.shape
        )
    )


def _special(scene: Scene, name: str) -> Suspects:
    tensors = scene.reference.arguments.tensors
    if any(
        t.dtype.is_floating_point and bool(((t == 0.0) & torch.signbit(t)).any()) for t in tensors
    ):
        words = "the sign of a zero input is lost"
        yield Suspect(
            "zero-sign-lost",
            words,
            functools.partial(scene.with_inputs, lambda base, position: base + 0.0),
        )
        if scene.form is not None:
            flushed = functools.partial(_plain_zeros, scene.form.smallest_normal)
            yield Suspect(
                "zero-sign-lost",
                f"{words}, and subnormals are zero",
                functools.partial(scene.with_inputs, flushed),
            )
    if any(t.dtype.is_floating_point and bool(t.isnan().any()) for t in tensors):
        for value, plain in (
            (-math.inf, False),
            (math.inf, False),
            (-math.inf, True),
            (math.inf, True),
        ):
            without = functools.partial(_for_nan, value, plain)
            yield Suspect(
                "nan-dropped", "leaving NaN out", functools.partial(scene.with_inputs, without)
            )
    if name in _WITH_BETA and scene.reference.arguments.kwargs.get("beta") == 0:
        words = "the input is not left out although beta is 0"
        yield Suspect("beta-zero-kept", words, functools.partial(_with_input, scene))
    if name.startswith("nn.functional.max_pool"):
        words = "indices are counted from the start of the tensor, not of their plane"
        counted = functools.partial(_from_the_start, scene.operator, int(name[-2]))
        yield Suspect(
            "index-base", words, functools.partial(scene.with_call, _as_they_are, counted)
        )


def _for_nan(value: float, plain: bool, base: torch.Tensor, position: int) -> torch.Tensor:
    """Another number for NaN, and zeros without a sign if they are to be ``plain``."""
    if not base.dtype.is_floating_point:
        return base
    return torch.where(torch.isnan(base), value, base + 0.0 if plain else base)


def _plain_zeros(tiny: float, base: torch.Tensor, position: int) -> torch.Tensor:
    return torch.where(base.abs() < tiny, 0.0, base)


def _with_input(scene: Scene) -> Predicted:
    poison = (scene.reference.arguments.args[0] * 0.0).broadcast_to(scene.shape).reshape(-1).numpy()
    return scene.outputs(scene.expected + poison)


def _from_the_start(operator: Any, dims: int, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    values, indices = operator(x, *args, **kwargs)
    size = math.prod(x.shape[-dims:])
    planes = torch.arange(math.prod(x.shape[:-dims])).reshape(*x.shape[:-dims], *[1] * dims)
    return values, indices + size * planes


def _integers(scene: Scene) -> Suspects:
    """Integers computed in float32, or held at a limit; only what gives every element exactly."""
    assert scene.raw is not None
    bits = min(torch.iinfo(scene.raw.dtype).bits, 32) if scene.raw.dtype != torch.bool else 0
    if not bits:
        return
    info = torch.iinfo(scene.raw.dtype if bits < 32 else torch.int32)
    single = _in_single(scene)
    limited = (
        f"integers saturate at {bits} bits instead of wrapping"
        if scene.raw.dtype != torch.int64
        else "int64 saturates at 32 bits"
    )
    for name, words, values in (
        ("saturated", limited, np.clip(scene.expected, info.min, info.max)),
        ("float32-integers", "integer arithmetic goes through float32", single),
        (
            "float32-integers",
            f"integer arithmetic goes through float32, and {limited}",
            np.clip(single, info.min, info.max),
        ),
    ):
        yield Suspect(name, words, functools.partial(_all_of_it, scene, values))


def _in_single(scene: Scene) -> np.ndarray[Any, Any]:
    """The call on the same integers in float32; no number at all where it takes integers only."""
    arguments = scene.reference.materials.build("float64")
    given = {
        i: t.to(torch.float32)
        for i, t in enumerate(arguments.tensors)
        if not t.dtype.is_floating_point and t.dtype != torch.bool
    }
    args, kwargs = substituted(arguments, given)
    try:
        made = [
            item
            for item in _limited(scene.operator(*args, **kwargs))
            if isinstance(item, torch.Tensor)
        ][scene.index]
        return made.detach().to(torch.float64).reshape(scene.expected.shape).numpy()
    except REFUSALS:
        return np.full_like(scene.expected, np.nan)


def _all_of_it(scene: Scene, values: np.ndarray[Any, Any]) -> Predicted:
    return scene.outputs(values) if np.array_equal(values, scene.actual) else []


def _unpadded(scene: Scene, dims: int) -> Predicted:
    args, kwargs = scene.reference.arguments.args, scene.reference.arguments.kwargs
    added = kwargs.get("output_padding", args[5] if len(args) > 5 else 0)
    added = [added] * dims if isinstance(added, int) else list(added)
    tensor = torch.from_numpy(scene.expected.copy()).reshape(scene.shape)
    for dim, count in zip(range(-dims, 0), added, strict=True):
        if count:
            tensor.narrow(dim, tensor.shape[dim] - count, count).zero_()
    return scene.outputs(tensor)


def _first_row(scene: Scene, dims: int) -> Predicted:
    tail = math.prod(scene.shape[dims:])
    rows = scene.expected.reshape(-1, tail)
    return scene.outputs(np.ascontiguousarray(np.broadcast_to(rows[:1], rows.shape)))
