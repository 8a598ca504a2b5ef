"""Types for annotations, and PyTorch's rules for which dtype a result has."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

Array: TypeAlias = npt.NDArray[Any]
DType: TypeAlias = np.dtype[Any]
Scalar: TypeAlias = bool | int | float | complex
Operand: TypeAlias = Array | Scalar
Dims: TypeAlias = int | Sequence[int] | None

# Whether torch returns what it does since 2.5, where that version changed it.
SINCE_2_5 = torch.__version__ >= "2.5"
FLOAT: DType = np.dtype(
    np.float32
)  # PyTorch's default dtype: what integers become in `exp`, `div`, `mean` …
INDEX: DType = np.dtype(np.int64)

_CATEGORY = {
    "b": 0,
    "i": 1,
    "u": 1,
    "f": 2,
    "c": 3,
    "O": 2,
}  # objects are real numbers of a class of their own
_NUMBER: dict[type, DType] = {
    bool: np.dtype(np.bool_),
    int: INDEX,
    float: FLOAT,
    complex: np.dtype(np.complex64),
}


def as_dtype(name: str | None, otherwise: DType = FLOAT) -> DType:
    """The dtype a `dtype="float64"` argument names."""
    if name is None:
        return otherwise
    try:
        return np.dtype(name)
    except TypeError:
        raise NotImplementedError(f"NumPy has no dtype {name!r}") from None


def _category(dtype: DType) -> int:
    return _CATEGORY[dtype.kind]


def promote(a: DType, b: DType) -> DType:
    """torch.promote_types: unlike NumPy's, an integer never widens a float."""
    if _category(a) == _category(b) or min(_category(a), _category(b)) >= 2:
        common = np.promote_types(a, b)
        # NumPy makes float64 of uint64 beside signed integers; torch promotes neither.
        return np.dtype(np.uint64) if common.kind == "f" and a.kind in "iu" else common
    return a if _category(a) > _category(b) else b


def result_type(*operands: Operand) -> DType:
    """torch.result_type: arrays with dimensions outrank 0-d arrays, which outrank Python numbers,
    within a category."""
    ranks: dict[int, DType] = {}
    for operand in operands:
        rank = (1 if operand.ndim == 0 else 0) if isinstance(operand, np.ndarray) else 2
        dtype = operand.dtype if isinstance(operand, np.ndarray) else _NUMBER[type(operand)]
        ranks[rank] = promote(ranks[rank], dtype) if rank in ranks else dtype
    first, *others = (ranks[rank] for rank in sorted(ranks))
    for lower in others:
        if _category(lower) > _category(first):
            # A complex number makes float64 complex128 and float32 complex64, whatever its own
            # precision.
            first = promote(first, np.dtype(np.complex64) if _category(first) == 2 else lower)
    return first


def is_integer(x: Array) -> bool:
    """Whether the elements are integers or booleans."""
    return _category(x.dtype) < 2


def unify(*operands: Operand, floating: bool = False) -> list[Array]:
    """The operands as arrays of their common dtype, and of a floating one if asked."""
    dtype = result_type(*operands)
    if floating and _category(dtype) < 2:
        dtype = FLOAT
    return [np.asarray(operand).astype(dtype, copy=False) for operand in operands]


def floating(x: Array) -> Array:
    """Integers and booleans become the default dtype."""
    return x.astype(FLOAT) if is_integer(x) else x


def accumulated(x: Array, dtype: str | None = None) -> Array:
    """The input as sums and products add it up: in `dtype`, or integers as int64."""
    return x.astype(as_dtype(dtype, INDEX if is_integer(x) else x.dtype), copy=False)


def constant(value: Scalar | str, like: Array) -> Array:
    """A number in the dtype of `like`; given as a string of digits, it fills a long double too,
    which a float cannot."""
    if like.dtype.kind == "O":
        return np.asarray(type(like.flat[0])(value) if like.size else 0, dtype=like.dtype)
    if like.dtype.kind in "iu" and isinstance(value, int):
        return np.asarray(value).astype(like.dtype)  # modulo 2ⁿ: NumPy refuses −2 as a uint8
    return np.asarray(like.dtype.type(value))


def pi(like: Array) -> Array:
    return constant("3.14159265358979323846264338327950288", like)


def is_nan(x: Array) -> Array:
    """np.isnan for every dtype: integers are never NaN."""
    return np.not_equal(x, x)
