"""What an oracle says: values of float64 and what they leave over, for all elements of an output or for some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


class Unsure(Exception):  # noqa: N818 (an answer, not an error)
    """An oracle has no answer to these arguments."""


@dataclass(frozen=True)
class Answer:
    """One output of ``shape``. ``high`` + ``tail`` are the values at the flat positions ``places``; None: everywhere, in order.

    ``high`` is the value rounded to float64 (infinite where it overflows), ``tail`` what is left over (0 where that is subnormal).
    ``high`` keeps its dtype where an output is whole numbers or booleans, and then has no tail.
    """

    shape: tuple[int, ...]
    high: npt.NDArray[Any]
    tail: npt.NDArray[np.float64] | None = None
    places: npt.NDArray[np.int64] | None = None

    @property
    def complete(self) -> bool:
        return self.places is None or self.places.size == int(np.prod(self.shape, dtype=np.int64))
