"""What all experiments share: the tables that they print, and the format that they are about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from consistency.core import dtypes

FLOAT32 = dtypes.FORMATS["float32"]
U = FLOAT32.unit_roundoff
Array = np.ndarray[Any, Any]


def table(heads: Sequence[str], rows: Iterator[Sequence[Any]] | list[Sequence[Any]]) -> None:
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        print(
            "| "
            + " | ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row)
            + " |",
            flush=True,
        )
