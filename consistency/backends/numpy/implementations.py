"""The table of implementations and the decorator that fills it."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from consistency.backends.numpy.dtypes import FLOAT, Array

Function = TypeVar("Function", bound=Callable[..., Any])

IMPLEMENTATIONS: dict[str, Callable[..., Any]] = {}
WIDE_NAMES: set[str] = set()

_HALF = np.dtype(np.float16)
_SINGLE = np.dtype(np.complex64)


def implements(
    *names: str,
    wide: bool = False,
    complex: bool = False,
    integers: bool = True,
    pointwise: bool = False,
    native_half: bool = False,
    as_first: bool = False,
    double: bool = False,
    one_dtype: bool = False,
) -> Callable[[Function], Function]:
    """Offer the function under PyTorch's `names`.

    wide: fed long doubles, every step of it is done in long double. complex, integers: arrays of
    complex numbers, or a first array of integers or booleans, are welcome; otherwise they
        raise NotImplementedError.
    pointwise: works element by element, so 0-d inputs may reach it as 1-d ones. (NumPy 1 turns a
    0-d float32 times a
        Python number into float64, a 1-d one not.)
    native_half: wants to see float16 itself; others see float32, and their float32 results are
    rounded once.
    as_first: the first array decides on the format of the result; else all do, promoted.
    one_dtype: arrays of several dtypes raise NotImplementedError.
    double: the result is float64, or whatever the function says, whatever they are.
    """

    def register(function: Function) -> Function:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            arrays = list(_arrays_in((args, kwargs)))
            if not complex and any(array.dtype.kind == "c" for array in arrays):
                raise NotImplementedError(f"{names[0]} of complex numbers")
            if not integers and arrays and arrays[0].dtype.kind in "biu":
                raise NotImplementedError(f"{names[0]} of integers")
            if one_dtype and len({array.dtype for array in arrays}) > 1:
                raise NotImplementedError(f"{names[0]} of several dtypes")
            deciding = arrays[:1] if as_first else arrays
            dtype = "float64" if double else kwargs.get("dtype")
            steps = _Adapter(deciding, dtype, widen=not native_half, lift=pointwise)
            with np.errstate(all="ignore"):
                return steps.after(function(*steps.before(args), **steps.before(kwargs)))

        for name in names:
            IMPLEMENTATIONS[name] = call
        if wide:
            WIDE_NAMES.update(names)
        return function

    return register


class _Adapter:
    """Changes arrays on their way in (float16 to float32, 0-d to 1-d) and undoes it on the way
    out."""

    def __init__(self, arrays: list[Array], dtype: str | None, *, widen: bool, lift: bool) -> None:
        floats = [array for array in arrays if array.dtype.kind == "f"]
        # As in torch, a single number promotes no tensor that has dimensions.
        floating = {a.dtype for a in floats if a.ndim} or {a.dtype for a in floats}
        self.widen = widen
        self.narrow = widen and (floating == {_HALF} if dtype is None else dtype == _HALF.name)
        # NumPy computes float32 beside int64 in float64, torch in float32.
        self.shorter = max(floating, default=None) if dtype is None else None
        self.complex = {a.dtype for a in arrays if a.dtype.kind == "c"}
        if any(a.dtype == np.float64 and a.ndim for a in arrays):
            self.complex = set()  # a double and a single complex number make a double one
        self.lift = lift and bool(arrays) and all(array.ndim == 0 for array in arrays)

    def before(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                key: FLOAT.name if self.narrow and key == "dtype" and item else self.before(item)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            items = [self.before(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        if not isinstance(value, np.ndarray):
            return value
        if self.widen and value.dtype == _HALF:
            value = value.astype(FLOAT)
        return value.reshape(1) if self.lift else value

    def after(self, value: Any) -> Any:
        """Results as plain arrays that any library accepts: C-contiguous, writeable, never NumPy
        scalars."""
        if isinstance(value, (list, tuple)):
            return tuple(self.after(item) for item in value)
        dtype: np.dtype[Any] | None = _HALF if self.narrow and value.dtype == FLOAT else None
        if self.shorter in (_HALF, FLOAT) and value.dtype == np.float64:
            dtype = self.shorter
        elif self.complex == {_SINGLE} and value.dtype == np.complex128:
            dtype = _SINGLE
        array = np.asarray(value, dtype=dtype, order="C")
        if self.lift:
            array = array.reshape(())
        return array if array.flags.writeable else array.copy()


def _arrays_in(value: Any) -> Iterator[Array]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _arrays_in(item)
    elif isinstance(value, dict):
        yield from _arrays_in(tuple(value.values()))
