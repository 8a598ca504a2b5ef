"""Writes which operators are held to which relation (layout, batch, length), found by trying drawn
cases in float64, and the page about it (some minutes).

    python tools/invariances.py [OPERATOR ...]

With names, only their lines are found anew. Every case in which a relation does not hold is
printed: it is looked at by hand, and what was found is entered in BY_HAND.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from consistency import operators
from consistency.core.dtypes import COMPLEX, FLOATING
from consistency.core.model import Case
from consistency.diagnose.two_answers import difference
from consistency.generate.materialize import prepare
from consistency.generate.search import batch
from consistency.judge.tolerances import load
from consistency.operators.declare import Operator
from consistency.reference import Reference, quiet
from consistency.reference.invariances.companions import (
    apart,
    in_another_layout,
    in_other_lengths,
    result_shapes,
)
from consistency.reference.invariances.page import PAGE, page
from consistency.reference.invariances.relations import (
    BATCH,
    FILE,
    LAYOUT,
    LENGTH,
    MODES,
    carriers,
    names_first,
)

CASES, SEED = 16, 11  # of each operator × dtype; not the seed of ordinary runs
MORE = 48  # where too few of them had a batch
FEWEST = 5  # cases in which a relation was seen to hold
RANKS = (1, 2, 3, 4)
_KINDS = ("programs", "sequences")
_WITHOUT_DIMENSIONS = frozenset(
    {"convolution", "pooling", "normalization", "matmul", "linalg", "loss", "rnn", "interpolate"}
)
RANDOM = "draws random numbers, in an order that no caller is promised"
UNDEFINED = "its numbers are not defined"
FEWER = "writes where its indices say, which may be fewer than the items"
EQUATION = "says in its equation what every dimension is"
FIRST = "may transform the first dimension"
RARE = "is not seen in enough drawn cases"
NO_TENSOR = "has no tensor among its arguments"
# Polynomials that give something for NaN.
_OF_NAN = (
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_w",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_w",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
)
_WRITING = (
    "formula.scatter_add",
    "scatter",
    "scatter.method",
    "scatter.out",
    "scatter_",
    "scatter_add",
    "scatter_add.method",
    "scatter_add.out",
    "scatter_add_",
    "scatter_reduce",
    "index_put_",
)
LOOKED_UP = "looks its elements up in a set of others"
# Looked at by hand. Empty: the operator is held to the relation, and torch breaks it
# (docs/findings.md, docs/findings-gradients.md).
BY_HAND: dict[str, dict[str, Any]] = {
    "nn.functional.multi_head_attention_forward": {
        BATCH: "may take static keys, whose first dimension is batch × heads",
        "mode": "",
        "rank": 0,
    },
    "logit": {LAYOUT: "", LENGTH: ""},
    "logit_": {LAYOUT: "", LENGTH: ""},
    "isin": {LENGTH: LOOKED_UP, BATCH: LOOKED_UP, "mode": "", "rank": 0},
    "isin.out": {LENGTH: LOOKED_UP, BATCH: LOOKED_UP, "mode": "", "rank": 0},
    "nn.functional.batch_norm": {LAYOUT: ""},
    "einsum": {BATCH: EQUATION, "mode": "", "rank": 0},
    "formula.einsum": {BATCH: EQUATION, "mode": "", "rank": 0},
    # Of rank 2 the first dimension is the sequence.
    "nn.functional.scaled_dot_product_attention": {"mode": "alike", "rank": 3},
    "nn.functional.group_norm": {LAYOUT: "", BATCH: "", "mode": "first", "rank": 2},
    "stft": {LAYOUT: "divides a gradient among elements that share memory, as `as_strided` does"},
    **{
        f"fft.{name}n{form}": {BATCH: FIRST, "mode": "", "rank": 0, "apart": False}
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
        for form in ("", *[".out"] * (name != "ihfft"))
    },
    # Of rank 1 the first dimension is the signal; few cases have that and a result of its shape.
    **{f"fft.{name}.out": {"rank": 2} for name in ("fft", "ifft", "rfft", "irfft", "hfft")},
    **{
        f"as_strided{form}": {LAYOUT: "names places in the memory of its input"}
        for form in ("", "_copy", "_copy.out", "_scatter", "_scatter.out")
    },
    **{name: {BATCH: FEWER, "mode": "", "rank": 0} for name in _WRITING},
    **{f"special.{name}": {LAYOUT: "", LENGTH: ""} for name in _OF_NAN},
}


def row_of(operator: Operator, rules: Any) -> dict[str, Any]:
    """The line of one operator."""
    row: dict[str, Any] = {"operator": operator.name, "mode": "", "rank": 0, "apart": False}
    reason = ""
    if "random" in operator.traits:
        reason = RANDOM
    elif operator.error.kind == "structure":
        reason = UNDEFINED
    elif operator.family in _KINDS:
        reason = "several calls, which are operators of their own"
    elif operator.callable is None:
        reason = "this torch has none"
    if reason:
        return row | dict.fromkeys((LAYOUT, BATCH, LENGTH), reason)
    tried = Trials(operator, rules)
    for case in drawn(operator):
        tried.add(case)
    if tried.row()[BATCH] == RARE:
        for case in batch(operator, operator.dtypes[0], MORE, SEED + 1):
            tried.add(case)
    row |= tried.row()
    return row | BY_HAND.get(operator.name, {})


def drawn(operator: Operator) -> list[Case]:
    """Cases in one format, one complex and one integer dtype, as far as there are such."""
    kinds = (FLOATING, COMPLEX, [d for d in operator.dtypes if d not in (*FLOATING, *COMPLEX)])
    chosen = [next((d for d in operator.dtypes if d in kind), None) for kind in kinds]
    return [case for d in chosen if d is not None for case in batch(operator, d, CASES, SEED)]


class Trials:
    """What was seen of one operator: in how many cases a relation held, and in how many not."""

    def __init__(self, operator: Operator, rules: Any) -> None:
        self.operator, self.rules = operator, rules
        self.seen: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.batches: list[tuple[str, int, bool, bool]] = []
        self.tensors = 0
        self.text = ""

    def add(self, case: Case) -> None:
        """Try one case."""
        materials = prepare(case)
        reference = Reference(self.operator, materials, "forward")
        if not reference.outcome.ok:
            return
        tensors = materials.build().tensors
        self.tensors += bool(tensors)
        if not tensors:
            return
        shapes = result_shapes(self.operator, tensors, reference.outcome.outputs)
        self._count(LAYOUT, in_another_layout(materials, tensors), reference)
        if self.operator.differentiable and case.dtype in (*FLOATING, *COMPLEX):
            backward = Reference(self.operator, materials, "backward")
            if backward.outcome.ok:
                self._count(LAYOUT, in_another_layout(materials, tensors), backward)
        if "elementwise" in self.operator.traits:
            found = in_other_lengths(materials, tensors, shapes)
            self._count(LENGTH, found, reference)
            return  # a batch is a matter of lengths then
        known: dict[tuple[int, ...], bool | None] = {}
        for mode in MODES:
            held_by = carriers(self.operator, mode, [tuple(t.shape) for t in tensors], shapes)
            if not held_by:
                continue
            if held_by not in known:
                companions = apart(materials, held_by, tensors[0].shape[0])
                known[held_by] = self._holds(companions, reference)
            answer, rank = known[held_by], tensors[0].ndim
            if answer is not None:
                self.batches.append((mode, rank, names_first(case, rank), answer))

    def _count(self, relation: str, companions: Any, reference: Reference) -> None:
        answer = self._holds(companions, reference)
        if answer is not None:
            self.seen[relation][not answer] += 1
            if not answer:
                case = reference.materials.case.line
                print(f"  {self.operator.name} {reference.direction}: {self.text}\n    {case}")

    def _holds(self, companions: Any, reference: Reference) -> bool | None:
        """Whether all companions agree; None where there are none that can be computed."""
        answers = [difference(c, reference, self.rules) for c in companions]
        self.text = next((text for text in answers if text), "")
        return not self.text if any(text is not None for text in answers) else None

    def row(self) -> dict[str, Any]:
        if not self.tensors:
            return dict.fromkeys((LAYOUT, BATCH, LENGTH), NO_TENSOR)
        row: dict[str, Any] = {}
        for relation in (LAYOUT, LENGTH):
            held, broken = self.seen[relation]
            if broken:
                row[relation] = f"does not hold in {broken} of {held + broken} drawn cases"
            elif held < (FEWEST if relation == LENGTH else 1):
                row[relation] = "is not seen in drawn cases"
            else:
                row[relation] = ""
        if "elementwise" not in self.operator.traits:
            row[LENGTH] = "is not elementwise"
        return row | self._batch()

    def _batch(self) -> dict[str, Any]:
        """The rule that holds in all of most cases."""
        if "elementwise" in self.operator.traits:
            return {BATCH: "is elementwise: that is the relation of lengths"}
        best: tuple[int, str, int, bool] = (0, "", 0, False)
        # A 0 among the arguments may be a dimension, in most families.
        family = self.operator.ruled_by[1]
        for unnamed in (False, True) if family in _WITHOUT_DIMENSIONS else (True,):
            for rank in RANKS:
                for mode in MODES:
                    cases = [
                        held
                        for m, r, named, held in self.batches
                        if m == mode and r >= rank and not (unnamed and named)
                    ]
                    if all(cases) and len(cases) > best[0]:  # the fewest conditions, if equal
                        best = len(cases), mode, rank, unnamed
        count, mode, rank, unnamed = best
        ranks = [r for m, r, named, _ in self.batches if m == mode and r >= rank]
        rank = min(ranks, default=rank)
        if count >= FEWEST:
            return {BATCH: "", "mode": mode, "rank": rank, "apart": unnamed}
        if not self.batches:
            return {BATCH: "no result has as many items as its first tensor"}
        if not count and len(self.batches) >= FEWEST:
            return {BATCH: "an item alone gives another result"}
        return {BATCH: RARE}


def main(names: list[str]) -> None:
    """Writes the file and the page."""
    warnings.simplefilter("ignore")
    rules = load()
    rows = {}
    if names and FILE.is_file():
        known = map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
        rows = {row["operator"]: row for row in known}
    for name, operator in sorted(operators.registry().items()):
        if names and name not in names:
            continue
        with quiet():
            rows[name] = row_of(operator, rules)
        print(f"{name:50s} {rows[name]}", flush=True)
    lines = [json.dumps(rows[n], sort_keys=True, separators=(",", ":")) for n in sorted(rows)]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (Path(__file__).parents[1] / "docs" / PAGE).write_text(page(rows.values()), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
