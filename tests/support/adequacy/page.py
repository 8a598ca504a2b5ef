"""The page ``docs/adequacy.md``: how the shipped cases were chosen, and what they miss."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from consistency import operators
from consistency.core.dtypes import INTEGER_RANGE
from consistency.core.model import DIRECTIONS
from consistency.core.reading import lines
from consistency.generate.shipped.cases import COUNTS, FOLDER, path_of, reported
from consistency.operators.declare import Operator
from tests.support.paths import ROOT

from .measure import FRESH

FILE = ROOT / "docs" / "adequacy.md"
NOTHING_ORDINARY = "no ordinary element in any drawn case: only zeros, whole answers or none"
NO_VALUE = "what is not initialized has no value"
SECTION = "\n## One element 1% off\n"
Group = tuple[str, str, str]  # operator, dtype, direction
LIKELY = 1.96  # standard errors: an interval that holds the share with a probability of 95%
BEGIN = """# Adequacy: how the shipped cases were chosen, and what they miss

For whoever wants to know what the cases that every run begins with are worth, or adds an operator.
Afterwards you know which faults were planted, what share of them is noticed, and where one wrong
element is not.

{faults} kinds of faults are planted into the results of torch's CPU: one element 1% off, the last
element or what is left over of 4, 8 and 32 not written, a dimension wrong beyond 16, 32, 64 and
128, one row copied to all, NaN, infinities, subnormal numbers and signs lost, results in a shorter
format, whole numbers through float32 or saturated, strides, offsets, masks or single arguments
ignored, and so on (`tests/support/adequacy/`). Comparison and rules judge each as in a run.

{measured}
Every fault was planted into every shipped case until one noticed it, and for comparison into
{drawn} drawn cases of each operator × dtype. `python tools/shipped_cases.py measure` does that, and
`page` writes it here; this is torch {version}.

| | |
|---|---|
| shipped cases | {cases:,} of {pairs:,} operators × dtypes; {reported} are of public reports |
| size of their files | {size:,} bytes |
| planted faults that a shipped or drawn case shows | {shown:,} |
| … noticed by the shipped cases | {noticed:,} ({share}) |
| … noticed by {drawn} drawn cases | {by_drawn:,} ({drawn_share}) |

## How they were chosen

For every operator × dtype, 12 to 40 cases were drawn with other seeds than a run draws with, and
the faults were planted. Chosen was, again and again, the case that notices the most of what none
noticed before, properties of cases (layouts, ranks, sizes, each argument's values) counting a
little; at most 7, or 4 where a run of everything draws few. No case is shipped that torch 2.13.0's
CPU does not pass, but for some 30 corners of operands whose defect is *known*: the others are left
to fresh cases, which are drawn as before. Where the chosen cases missed one element 1% off, some
200 further ones were tried.

Planted faults are wrong on many cases; reported defects often only under a narrow condition: a
contiguous slice that begins some rows into its storage, one tensor in channels_last beside others
that are not, rows of more than 1,024 elements, an image of 32 x 32 in 8 channels, an infinity
among numbers that are added, -0.0 as a number, two arguments together, positions beyond 256. Some
100 drawn cases of every operator in its first dtype, and in float16, bfloat16, int64 and bool, and
variations of small ones, were searched for conditions that none of its cases met; up to 14 were
added that meet the most of them. As much was done for *ordinary calls*, about which nothing is
degenerate: those that are written down (`ordinary_calls.py`), or the plainest that are drawn, each
in every layout beside every option, with sizes at thresholds, and with one value everywhere or in
the first row (`tools/shipped_cases.py reach`, `tests/support/adequacy/search.py`). What programs
call most is drawn rarely where there are many options: *plain calls* of every operator, with one or
two options and ordinary tensors, and images in channels_last beside a number for each channel, were
added (`tools/shipped_cases.py plain`). The tests of seven other programs (tinygrad, torch-mlir,
FlagGems, Core ML Tools, ExecuTorch, PyTorch/XLA, torch-xpu-ops) make some 23,000 different calls
of these operators, with which shapes, layouts and options was recorded; of them, and of the same in
half precision, 4,000 that met what no case did were added (`called`), and of ordinary calls 1,100
of which a tensor with a gradient is 0 (`zeros`). 25,593 cases were chosen by what they notice;
conditions and calls of all kinds added the others. [Reported bugs](real-bugs.md) says what that
changed.
"""


def page(rows: Iterable[Mapping[str, Any]], version: str, of: int) -> Iterator[str]:
    """The page without the section of one element; ``rows`` are those of
    :func:`.measure.compared`, of some of the ``of`` operators × dtypes."""
    rows = sorted(rows, key=lambda row: (row["operator"], row["dtype"]))
    shipped = [row["cases"] for _, row in lines(path_of(COUNTS))]
    shown, noticed, by_drawn = (
        sum(len(set(row[name]) & set(row["shown"])) for row in rows)
        for name in ("shown", "noticed", "noticed by drawn")
    )
    by_fault = _by_fault(rows)
    yield BEGIN.format(
        faults=len(by_fault),
        measured=measured_on(len(rows), of),
        drawn=FRESH,
        version=version,
        cases=sum(shipped),
        pairs=len(shipped),
        reported=reported(),
        size=sum(path.stat().st_size for path in FOLDER.glob("*.gz")),
        shown=shown,
        noticed=noticed,
        share=interval(rows, "noticed", of),
        by_drawn=by_drawn,
        drawn_share=interval(rows, "noticed by drawn", of),
    )
    yield "## By fault\n"
    yield "| fault | groups that show it | noticed |\n|---|---|---|"
    for name, (some, count) in sorted(by_fault.items(), key=lambda i: (i[1][0] / i[1][1], i[0])):
        yield f"| {name} | {count:,} | {some / count:.1%} |"


def measured_on(rows: int, of: int) -> str:
    """How many operators × dtypes were measured."""
    if rows == of:
        return f"Measured on all {of:,} operators × dtypes."
    return (
        f"Measured on {rows:,} of {of:,} operators × dtypes, picked at random; intervals hold the "
        f"share of all with a\nprobability of 95%."
    )


def interval(rows: Sequence[Mapping[str, Any]], name: str, of: int) -> str:
    """The share of the shown faults that are in ``name``, and where it was measured on a sample,
    its interval: faults of one operator × dtype are alike, so these are what was picked."""
    pairs = [(len(set(row[name]) & set(row["shown"])), len(row["shown"])) for row in rows]
    shown = sum(count for _, count in pairs)
    share = sum(some for some, _ in pairs) / max(shown, 1)
    if len(pairs) == of or len(pairs) < 2 or not shown:
        return f"{share:.1%}"
    spread = sum((some - share * count) ** 2 for some, count in pairs) / (len(pairs) - 1)
    left_out = 1.0 - len(pairs) / of
    error = LIKELY * math.sqrt(left_out * len(pairs) * spread) / shown
    return f"{share:.1%}; {max(share - error, 0.0):.1%} to {min(share + error, 1.0):.1%}"


def _by_fault(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """How many groups notice each fault, and how many show it; ignored arguments are one fault."""
    shown, noticed = Counter[str](), Counter[str]()
    for row in rows:
        for item in row["shown"]:
            name = item.partition(": ")[2]
            name = "an argument is ignored" if name.startswith("argument ") else name
            shown[name] += 1
            noticed[name] += item in row["noticed"]
    return {name: (noticed[name], count) for name, count in shown.items()}


def one_element(rows: Iterable[Mapping[str, Any]], of: int) -> Iterator[str]:
    """The section of one element that is 1% off. ``rows`` are those of
    :func:`.one_element.measured`, of some of the ``of`` operators × dtypes."""
    groups, found = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    missed: dict[Group, str] = {}
    rows = list(rows)
    for row in rows:
        operator = operators.get(row["operator"])
        for direction in DIRECTIONS:
            if direction not in row:
                continue
            groups[row["dtype"], direction] += 1
            if row[direction] == "noticed":
                found[row["dtype"], direction] += 1
            else:
                missed[row["operator"], row["dtype"], direction] = reason(
                    operator, row["dtype"], row[direction], direction == "forward"
                )
    total, some = sum(groups.values()), sum(found.values())
    apart = sum(why in (NOTHING_ORDINARY, NO_VALUE) for why in missed.values())
    yield SECTION
    yield (
        f"One ordinary element of the first output, whichever the case's hash names, is 1% too "
        f"small (whole numbers: by at least 1;\nof a bool the opposite). A quick run notices it in "
        f"{some:,} of {total:,} groups (operator × dtype × direction that torch offers):\n"
        f"{some / max(total, 1):.1%}; without bfloat16 {_share(groups, found):.1%}; of the "
        f"{total - apart:,} groups with an element that has a value and is ordinary "
        f"{some / max(total - apart, 1):.1%}.\n"
    )
    yield f"{measured_on(len(rows), of)}\n"
    yield "| dtype | forward | backward |\n|---|---|---|"
    for dtype in sorted({dtype for dtype, _ in groups}):
        cells = [
            f"{found[dtype, d]:,} of {groups[dtype, d]:,}" if groups[dtype, d] else "–"
            for d in DIRECTIONS
        ]
        yield f"| {dtype} | {' | '.join(cells)} |"
    yield "\nWhere it is not noticed:\n"
    yield "| why | groups |\n|---|---|"
    names: dict[str, list[str]] = defaultdict(list)
    for (name, dtype, direction), why in sorted(missed.items()):
        names[why].append(f"`{name}` {dtype}{' backward' * (direction == 'backward')}")
    for why, places in sorted(names.items(), key=lambda item: len(item[1])):
        yield f"| {why} | {len(places)}: {', '.join(places)} |"


def _share(groups: Counter[tuple[str, str]], found: Counter[tuple[str, str]]) -> float:
    others = [key for key in groups if key[0] != "bfloat16"]
    return sum(found[key] for key in others) / max(sum(groups[key] for key in others), 1)


def reason(operator: Operator, dtype: str, outcome: str, forward: bool) -> str:
    """Why an element that is 1% off is not noticed."""
    if outcome == "none":
        return NOTHING_ORDINARY
    if outcome == "failing":
        return (
            "torch's CPU itself is wrong in every case, and known to be ([findings](findings.md))"
        )
    if "random" in operator.traits:
        return "random numbers are judged by their distribution"
    if operator.family == "creation" and "empty" in operator.name:
        return NO_VALUE
    if dtype in INTEGER_RANGE and operator.error.kind != "exact":
        return "a number between two whole ones is rounded either way, and neither is proved"
    if dtype == "bfloat16" and operator.error.kind == "accumulated" and forward:
        return "bfloat16, forward: torch's CPU itself stores partial sums, or steps, in bfloat16"
    if dtype == "bfloat16" and operator.error.backward == "products":
        return "gradients in bfloat16: n belongs to the operator, and its least budget exceeds 1%"
    if dtype == "bfloat16":
        return "1% are 1 to 3 ulp of bfloat16, which the budget of three roundings and more admits"
    if dtype == "float16":
        return "the budget in float16 exceeds 1%: long sums, or intermediates in half precision"
    if dtype in ("float64", "complex128"):
        return "float64 on the CPU is the reference, and no other value is proved"
    return "the budget exceeds 1%: the error model of the operator is wide"
