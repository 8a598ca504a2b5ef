"""Finds the edges of all elementwise operators and writes the file of the package (a minute).

    python tools/edges.py

The numbers around them are a case of every run (:mod:`consistency.generate.exhaustive`). Run it
after a change of declarations, or of :mod:`consistency.generate.edge_search`.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

# Scalar code: some vectorized functions of float64 are infinite too early, and processors differ.
os.environ["ATEN_CPU_CAPABILITY"] = "default"
sys.path.insert(0, str(Path(__file__).parents[1]))

from consistency import operators
from consistency.generate import edge_search, exhaustive
from consistency.generate.edges import FILE


def main() -> None:
    """Writes a line for each operator × dtype that has edges."""
    warnings.simplefilter("ignore")
    rows = []
    for operator in operators.registry().values():
        for dtype in exhaustive.STEP:
            found = edge_search.find(operator, dtype)
            if found:
                rows.append({"operator": operator.name, "dtype": dtype, "edges": found})
    text = "".join(json.dumps(row) + "\n" for row in rows)
    FILE.write_text(text, encoding="utf-8")
    print(f"{len(rows)} operators × dtypes, {sum(len(row['edges']) for row in rows)} edges")


if __name__ == "__main__":
    main()
