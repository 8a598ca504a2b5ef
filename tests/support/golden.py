"""SHA-256 of what recipes in the wild must give for ever; also a script, so that other interpreters
can be asked.

``python tests/support/golden.py`` prints the hashes as JSON. What it printed once is in
golden.json, which only ever grows: a hash that changes means that recipes pasted into issues last
year now describe other numbers.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch

from consistency.core import dtypes
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate import value_classes
from consistency.generate.materialize import prepare

CLASSES: dict[str, tuple[Any, ...]] = {
    "uniform": (-1.0, 1.0), "normal": (0.0, 1.0), "wide": (-8, 7), "cancelling": (1.0,),
    "offset": (64.0, 1.0),
    "integers": (-4, 9), "sparse": (0.25,), "subnormal": (), "near": (0.25, 90.0, 1.0, 88.5),
    "tokens": (-3.0, 3.0, "nan", "-0", "max"),
    "distinct": (), "permutation": (), "ascending": (-0.7, 0.3), "diagonal": (8, 9.0),
    "positive-definite": (8,), "unsigned": (16,), "unsigned-powers": (16,),
}  # fmt: skip
STOPS = (0, 100, 5000, (1 << 18) + 77, 10**9 + 1)  # blanks; within the cache; beyond it; far along
VIEWS = {
    "transpose": (("transpose", 1, 2),),
    "slice of a slice": (("slice", 1, 1, None, 2), ("slice", 1, 0, 3, None)),
    "permute": (("permute", 2, 0, 1),),
    "expand": (("select", 0, 1), ("unsqueeze", 0), ("expand", 3, 8, 8)),
    "unfold": (("unfold", 2, 5, 2),),
    "as_strided": (("as_strided", 2, 3, 4, 64, 1, 3, 7),),
}


def digests() -> dict[str, str]:
    """What each golden case hashes to."""
    found = {}
    for dtype in dtypes.ALL:
        for name, parameters in CLASSES.items():
            tensors = [TensorRecipe((5, 8, 8), dtype, (name, *parameters), stop) for stop in STOPS]
            found[f"{dtype} {name}"] = prepare(Case("golden", dtype, tuple(tensors))).sha256
    for dtype in (*dtypes.FORMATS, *dtypes.PARTS):
        beyond = 320 if dtype in dtypes.PARTS else 0  # imaginary parts stand behind the real ones
        special = tuple((i + beyond, token) for i, token in enumerate(value_classes.SPECIAL))
        case = Case("golden", dtype, (TensorRecipe((5, 8, 8), dtype, stop=999, special=special),))
        found[f"{dtype} special values"] = prepare(case).sha256
    for name, view in VIEWS.items():
        case = Case("golden", "float32", (TensorRecipe((5, 8, 8), "float32", stop=999, view=view),))
        (tensor,) = prepare(case).build().tensors
        found[f"view {name}"] = hashlib.sha256(
            tensor.contiguous().view(torch.int32).numpy().astype("<i4").tobytes()
        ).hexdigest()
    return found


if __name__ == "__main__":
    print(json.dumps(digests(), indent=0))
