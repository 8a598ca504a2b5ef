"""Tensors made from a shape and numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from consistency.backends.numpy.dimensions import sizes
from consistency.backends.numpy.dtypes import FLOAT, INDEX, Array, Scalar, as_dtype, constant
from consistency.backends.numpy.implementations import implements

_MINOR = frozenset({"device", "layout", "requires_grad", "pin_memory", "memory_format", "names"})


def _only_minor(options: dict[str, Any]) -> None:
    """Accept only arguments that do not change the numbers, such as device and memory format."""
    unknown = options.keys() - _MINOR
    if unknown:
        raise NotImplementedError(f"the arguments {', '.join(sorted(unknown))}")


def _dtype_of(*numbers: Scalar) -> np.dtype[Any]:
    if all(isinstance(one, bool) for one in numbers):
        return np.dtype(np.bool_)
    return INDEX if all(isinstance(one, int) for one in numbers) else FLOAT


def _filled(shape: Sequence[int], value: Scalar, dtype: np.dtype[Any]) -> Array:
    return np.full(shape, np.asarray(value).astype(dtype), dtype)


def _offer_filled(name: str, value: Scalar) -> None:
    @implements(name, native_half=True)
    def plain(*size: int | Sequence[int], dtype: str | None = None, **options: Any) -> Array:
        _only_minor(options)
        return _filled(sizes(*size), value, as_dtype(dtype))

    @implements(f"{name}_like", complex=True, native_half=True)
    def like(input: Array, *, dtype: str | None = None, **options: Any) -> Array:
        _only_minor(options)
        return _filled(input.shape, value, as_dtype(dtype, input.dtype))

    @implements(f"new_{name}", complex=True, native_half=True)
    def new(
        input: Array, *size: int | Sequence[int], dtype: str | None = None, **options: Any
    ) -> Array:
        _only_minor(options)
        return _filled(sizes(*size), value, as_dtype(dtype, input.dtype))


_offer_filled("zeros", 0)
_offer_filled("ones", 1)


@implements("full", native_half=True)
def full(
    size: Sequence[int], fill_value: Scalar, *, dtype: str | None = None, **options: Any
) -> Array:
    _only_minor(options)
    return _filled(size, fill_value, as_dtype(dtype, _dtype_of(fill_value)))


@implements("full_like", complex=True, native_half=True)
def full_like(
    input: Array, fill_value: Scalar, *, dtype: str | None = None, **options: Any
) -> Array:
    _only_minor(options)
    return _filled(input.shape, fill_value, as_dtype(dtype, input.dtype))


@implements("new_full", complex=True, native_half=True)
def new_full(
    input: Array,
    size: Sequence[int],
    fill_value: Scalar,
    *,
    dtype: str | None = None,
    **options: Any,
) -> Array:
    _only_minor(options)
    return _filled(size, fill_value, as_dtype(dtype, input.dtype))


@implements("scalar_tensor", native_half=True)
def scalar_tensor(s: Scalar, *, dtype: str | None = None, **options: Any) -> Array:
    return full((), s, dtype=dtype or FLOAT.name, **options)


@implements("eye", native_half=True)
def eye(n: int, m: int | None = None, *, dtype: str | None = None, **options: Any) -> Array:
    _only_minor(options)
    return np.eye(n, m, dtype=as_dtype(dtype))


@implements("arange", native_half=True)
def arange(
    start: float,
    end: float | None = None,
    step: float = 1,
    *,
    dtype: str | None = None,
    **options: Any,
) -> Array:
    """start + i · step for i < ⌈(end − start) / step⌉, in float64 or exact integers before the
    final rounding."""
    _only_minor(options)
    start, step = (one.item() if isinstance(one, np.ndarray) else one for one in (start, step))
    end = end.item() if isinstance(end, np.ndarray) else end
    if end is None:
        start, end = 0, start
    kind = _dtype_of(start, end, step)
    if as_dtype(dtype, kind).kind in "iu" and not all(
        float(one).is_integer() for one in (start, end, step)
    ):
        raise NotImplementedError("integers between fractions")
    count = max(int(np.ceil((end - start) / step)), 0)
    steps: Array = np.arange(count, dtype=INDEX if kind == INDEX else np.dtype(np.float64))
    return np.asarray(start + steps * step).astype(as_dtype(dtype, kind))


@implements("linspace")
def linspace(
    start: float, end: float, steps: int, *, dtype: str | None = None, **options: Any
) -> Array:
    """From both ends towards the middle, so that both are met exactly; in the requested dtype."""
    _only_minor(options)
    if isinstance(start, np.ndarray) or isinstance(end, np.ndarray):
        raise NotImplementedError("ends that are tensors")
    result_dtype = as_dtype(dtype)
    if result_dtype.kind != "f":
        raise NotImplementedError("a linspace that is not floating")
    index = np.arange(steps)
    from_start = index.astype(result_dtype)
    from_end = (steps - 1 - index).astype(from_start.dtype)
    step = (constant(end, from_start) - constant(start, from_start)) / constant(
        max(steps - 1, 1), from_start
    )
    near_start = (index < steps // 2) | (steps == 1)
    result: Array = np.where(near_start, start + step * from_start, end - step * from_end)
    return result.astype(result_dtype)


def _offer_triangle_indices(name: str, choose: Callable[..., Any]) -> None:
    @implements(name, native_half=True)
    def call(
        row: int, col: int, offset: int = 0, *, dtype: str | None = None, **options: Any
    ) -> Array:
        _only_minor(options)
        return np.stack(choose(row, offset, col)).astype(as_dtype(dtype, INDEX))


_offer_triangle_indices("tril_indices", np.tril_indices)
_offer_triangle_indices("triu_indices", np.triu_indices)
