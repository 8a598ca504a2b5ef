"""The page ``docs/budgets.md``: budget ÷ max|ref| of every entry, and why some exceed the limit."""

from __future__ import annotations

import functools
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from consistency import operators
from consistency.core.dtypes import FORMATS
from consistency.core.recipe import DType
from consistency.generate.shipped.cases import cases
from tests.support.budgets.measure import ELEMENTS, LIMITS

Row = Mapping[str, Any]
Fact = Mapping[str, Any]
DIRECTIONS = ("forward", "backward")
COLUMNS = tuple((dtype, direction) for dtype in LIMITS for direction in DIRECTIONS)
SLACK = (
    64.0  # × what rounding at random, or the CPU, shows: S bounds what a few samples do not meet
)
COARSE = frozenset({"float16", "bfloat16"})
LONG = 32.0  # × n·u: the largest λ of sums in half precision is 28
# where subnormal intermediates, and inputs that may be taken for zero, are as large as the result
NEXT_TO_NORMAL = {"float32": 2.0**-116, "float16": 2.0**-11, "bfloat16": 2.0**-116}
NO_REASON = "**no reason is known**"
# Rules that no condition excuses, by operator and direction: why they are too wide.
TOO_WIDE: dict[tuple[str, str], str] = {
    ("prod", "forward"):
    "λ is calibrated on long products, whose roundings are counted as √n. Where few different "
    "factors repeat, they are counted as n, and λ is the same: the budget is 64·n·u·S, where "
    "n roundings err by ½·n·u·S",
}  # fmt: skip
COARSER = "an operand or a result asked for is in half precision, whose limit the budget is within"
OBSERVED = "what is compared is made of the elements, as a sum over ties: one of them counts little"


def _below_normal(fact: Fact, dtype: str) -> bool:
    return bool(fact["largest"] <= NEXT_TO_NORMAL[dtype])


def _needed(fact: Fact, dtype: str) -> bool:
    return bool(fact["ratio"] <= SLACK * max(fact["error"], fact["rounding"]))


def _cancels(fact: Fact, dtype: str) -> bool:
    return bool(fact["magnitude"]) and fact["ratio"] <= LIMITS[dtype] * fact["magnitude"]


def _long(fact: Fact, dtype: str) -> bool:
    u = FORMATS[dtype].unit_roundoff
    return bool(fact["magnitude"]) and fact["ratio"] <= fact["magnitude"] * LONG * fact["terms"] * u


def _unbounded(fact: Fact, dtype: str) -> bool:
    return fact["magnitude"] is None or not fact["judged"]


def _flushed(fact: Fact, dtype: str) -> bool:
    return bool(fact["flushed"])


def _stated(fact: Fact, dtype: str) -> bool:
    return bool(fact["stated"])


# In this order: the first that holds is the reason of a case.
CONDITIONS: tuple[tuple[str, Callable[[Fact, str], bool]], ...] = (
    ("the whole result is next to the smallest normal number, to which budgets have a floor",
     _below_normal),
    (f"roundings of the inputs or steps at random, or the CPU itself, err by 1/{SLACK:.0f} of the "
     "budget or more", _needed),
    ("the terms cancel, or the result responds so much to its inputs: beside S the budget is small",
     _cancels),
    ("a sum whose steps may be rounded in its format has so many terms: the budget is within "
     f"{LONG:.0f}·n·u·S", _long),
    ("the element has no budget: a pole, NaN among its inputs, an intermediate beyond the format",
     _unbounded),
    ("subnormal inputs, each of which may be taken for zero, are the whole result", _flushed),
    ("a bound in units of the result, with its source in tolerances.yaml", _stated),
)  # fmt: skip

PAGE = """# Budgets beside results

For whoever asks whether a budget is so wide that it admits any result, or gives an operator a rule.
Afterwards you know how large it is for every operator, dtype and direction, and why some are wide.

Written by `python tools/budget_audit.py`. In each shipped case one element of the CPU's result is
changed by ¾·max|ref|, max|ref| being the largest element of the output, and the judge says how many
budgets that is: so budget ÷ max|ref| is known without reading a tolerance. Of a case the largest of
{elements} elements per output counts. Forms of an operator (methods, `out=`) have its rules.

The limit is 2⁻⁸ in float32 and ½ in half precision, where one rounding has 2⁻¹¹ or 2⁻⁸.
{exceeding:,} of {cases:,} cases exceed it; {excused:,} have a reason below, which is a condition on
what was measured.{unexcused}

| dtype | direction | entries | median of medians | median case exceeds | some case exceeds |
|---|---|---|---|---|---|
{totals}

## Why a budget exceeds the limit

| condition | cases | entries, those whose median case exceeds in bold |
|---|---|---|
{conditions}
{too_wide}
## Every entry

budget ÷ max|ref|: median / largest case. A dash: not offered, or no case with a number to change.

| operator | {columns} |
|---|{rules}
{entries}
"""

TABLE_OF_TOO_WIDE = """
## Rules that are too wide

| why | cases | entries, those whose median case exceeds in bold |
|---|---|---|
{}
"""
UNEXCUSED = frozenset({NO_REASON, *TOO_WIDE.values()})


def page(rows: Iterable[Row]) -> str:
    """The page of all rows that have cases."""
    rows = [row for row in rows if row["cases"]]
    facts = [(row, fact) for row in rows for fact in row["cases"]]
    wide = [(row, fact) for row, fact in facts if _exceeds(row, fact)]
    excused = [(row, fact) for row, fact in wide if reason(row, fact) not in UNEXCUSED]
    unexcused = [(row, fact) for row, fact in wide if reason(row, fact) in UNEXCUSED]
    return PAGE.format(
        elements=ELEMENTS,
        exceeding=len(wide),
        excused=len(excused),
        unexcused=f" {len(unexcused):,} have none: rules that are too wide." * bool(unexcused),
        cases=len(facts),
        totals="\n".join(_totals(rows)),
        conditions="\n".join(_by_reason(excused)),
        too_wide=TABLE_OF_TOO_WIDE.format("\n".join(_by_reason(unexcused))) * bool(unexcused),
        columns=" | ".join(f"{dtype} {direction}" for dtype, direction in COLUMNS),
        rules="---|" * len(COLUMNS),
        entries="\n".join(_entries(rows)),
    )


def reason(row: Row, fact: Fact) -> str:
    """Why the budget of a case exceeds the limit."""
    named = _formats(row["operator"], row["dtype"]).get(fact.get("case", ""), frozenset())
    coarse = max(COARSE & named, key=lambda name: FORMATS[name].unit_roundoff, default="")
    if coarse and row["dtype"] not in COARSE and fact["ratio"] <= LIMITS[coarse]:
        return COARSER
    for words, holds in CONDITIONS:
        if holds(fact, coarse or row["dtype"]):
            return words
    operator = operators.registry().get(row["operator"])
    forward = row["direction"] == "forward"
    if operator and (operator.observe if forward else operator.observe_gradients):
        return OBSERVED
    return TOO_WIDE.get((row["operator"], row["direction"]), NO_REASON)


@functools.cache
def _formats(operator: str, dtype: str) -> dict[str, frozenset[str]]:
    """The formats that each shipped case names, by its id; none of an unknown operator."""
    if operator not in operators.registry():
        return {}
    return {
        case.id: frozenset(
            {tensor.dtype for tensor in case.tensors}
            | {arg.name for arg in (*case.args, *case.kwargs.values()) if isinstance(arg, DType)}
        )
        for case in cases(operators.get(operator), dtype)
    }


def _exceeds(row: Row, fact: Fact) -> bool:
    """Of a result in another format than the operands' that format's limit counts, too."""
    return bool(fact["ratio"] > LIMITS[row["dtype"]]) and "error" in fact


def _median(row: Row) -> float:
    return statistics.median(fact["ratio"] for fact in row["cases"])


def _largest(row: Row) -> float:
    return max(fact["ratio"] for fact in row["cases"])


def _totals(rows: list[Row]) -> Iterator[str]:
    for dtype, direction in COLUMNS:
        of = [row for row in rows if (row["dtype"], row["direction"]) == (dtype, direction)]
        if of:
            middle = statistics.median(map(_median, of))
            often = sum(_median(row) > LIMITS[dtype] for row in of)
            once = sum(_largest(row) > LIMITS[dtype] for row in of)
            yield f"| {dtype} | {direction} | {len(of):,} | {middle:.1e} | {often} | {once} |"


def _by_reason(facts: list[tuple[Row, Fact]]) -> Iterator[str]:
    """A line for each reason, in the order of the conditions."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row, fact in facts:
        found[reason(row, fact)].append(row)
    order = [words for words, _ in CONDITIONS]
    for words in sorted(found, key=lambda words: order.index(words) if words in order else 99):
        counts = Counter(_name(row) for row in found[words])
        wide = {_name(row) for row in found[words] if _median(row) > LIMITS[row["dtype"]]}
        names = ", ".join(f"**{name}**" if name in wide else name for name in sorted(counts))
        yield f"| {words} | {sum(counts.values())} | {names} |"


def _name(row: Row) -> str:
    return f"`{row['operator']}` {row['dtype']} {row['direction']}"


def _entries(rows: list[Row]) -> Iterator[str]:
    cells: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    for row in rows:
        cells[row["operator"]][row["dtype"], row["direction"]] = (
            f"{shown(_median(row))} / {shown(_largest(row))}"
        )
    for operator in sorted(cells):
        yield f"| `{operator}` | {' | '.join(cells[operator].get(c, '–') for c in COLUMNS)} |"


def shown(ratio: float) -> str:
    """Beyond 10⁶ any result is admitted."""
    return f"{ratio:.2g}" if ratio < 1e6 else "any"
