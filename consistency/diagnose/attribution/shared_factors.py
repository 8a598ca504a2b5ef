"""What of an error a factor explains that a row has in common: a rounded length that a row is
divided by is in all of its elements, and so is the rounding of a single cotangent."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
_LEAST = 8  # elements of a row: one of fewer is little more than the factor


def least_share(
    error: Doubles, predicted: Doubles, numbers: Doubles, shape: tuple[int, ...]
) -> float:
    """The smallest share 1 − ‖e − p‖/‖e‖ of the errors e that a prediction p explains when the
    multiples of ``numbers`` are taken from both: one multiple for all, and one for each row along
    each dimension of at least 8. All arrays are flat, of ``shape``, in one unit; what is not to be
    compared is 0 in them. 0 where nothing is left of e."""
    whole: tuple[int, ...] = (error.size,)
    views = [(whole, 0)]
    views += [(shape, d) for d, size in enumerate(shape) if size >= _LEAST and shape != whole]
    return min(_share(error, predicted, numbers, form, axis) for form, axis in views)


def _share(
    error: Doubles, predicted: Doubles, numbers: Doubles, shape: tuple[int, ...], axis: int
) -> float:
    along = numbers.reshape(shape)
    squares = np.maximum((along * along).sum(axis, keepdims=True), np.finfo(np.float64).tiny)
    left = [
        values - along * ((values * along).sum(axis, keepdims=True) / squares)
        for values in (error.reshape(shape), predicted.reshape(shape))
    ]
    size = float(np.linalg.norm(left[0].ravel()))
    return 1.0 - float(np.linalg.norm((left[0] - left[1]).ravel())) / size if size > 0.0 else 0.0
