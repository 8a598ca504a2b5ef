"""Writes the moderately large cases that every run has: which calls of an operator repeat with
their arguments, found by trying (a few minutes).

    python tools/large_tiles.py
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))


# torch computes it by a product of matrices where there are many rows, with the budget of few.
LEFT_OUT = frozenset({"cdist"})


def main() -> None:
    """Writes one line per small case that repeats."""
    from consistency import operators
    from consistency.generate.large.discovery import varieties
    from consistency.generate.large.shipped import DTYPE, FILE

    warnings.simplefilter("ignore")
    lines = []
    for name, operator in sorted(operators.registry().items()):
        if DTYPE not in operator.dtypes or name in LEFT_OUT:
            continue
        for tile in varieties(operator, DTYPE):
            row = {
                "case": tile.case.to_json(),
                "largest": tile.largest,
                "whole": tile.whole,
            }
            lines.append(json.dumps(row, sort_keys=True, separators=(",", ":")))
        print(f"{name:50s} {len(lines)} cases", flush=True)
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
