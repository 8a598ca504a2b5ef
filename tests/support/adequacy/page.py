"""The page ``docs/adequacy.md``: how the shipped cases were chosen, and what they miss."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from consistency import operators
from consistency.core.model import DIRECTIONS
from consistency.generate.shipped.cases import FOLDER, reported
from consistency.operators.declare import Operator
from tests.support.paths import ROOT

FILE = ROOT / "docs" / "adequacy.md"
NOTHING_ORDINARY = "no ordinary element in any drawn case: only zeros, whole answers or none"
NO_VALUE = "what is not initialized has no value"
SECTION = "\n## One element 1% off\n"
Group = tuple[str, str, str]  # operator, dtype, direction
BEGIN = """# Adequacy: how the shipped cases were chosen, and what they miss

For whoever wants to know what the cases that every run begins with are worth, or adds an operator.
Afterwards you know which faults were planted, what share of them is noticed, and where one wrong
element is not.

For every operator × dtype, 12 to 40 cases were drawn with other seeds than a run draws with, and
{faults} kinds of faults were planted into the results of torch's CPU: one element 1% off, the last
element or what is left over of 4, 8 and 32 not written, a dimension wrong beyond 16, 32, 64 and
128, one row copied to all, NaN, infinities, subnormal numbers and signs lost, results in a shorter
format, whole numbers through float32 or saturated, strides, offsets, masks or single arguments
ignored, and so on (`tests/support/adequacy/`). Comparison and rules judge each as in a run. Chosen
was, again and again, the case that notices the most of what none noticed before, properties of
cases (layouts, ranks, sizes, each argument's values) counting a little; at most 7, or 4 where a run
of everything draws few. No case is shipped that torch {version}'s CPU does not pass: its known
defects are left to fresh cases, which are drawn as before.

On 60 operators × dtypes picked at random, a quick run (shipped cases and 2 fresh ones, 335 in all)
notices 94.0% of the 1,612 planted faults that these or 5 drawn cases show; 5 drawn cases each (300)
notice 83.7%.

`python tools/shipped_cases.py` chooses again and writes this page.

| | |
|---|---|
| shipped cases | {cases:,} of {pairs:,} operators × dtypes, {reported} of public reports besides |
| size of their files | {size:,} bytes |
| planted faults that any drawn case shows | {shown:,} |
| … noticed by the shipped cases | {noticed:,} ({share:.1%}) |

## Conditions

Planted faults are wrong on many cases; reported defects often only under a narrow condition: a
contiguous slice that begins some rows into its storage, one tensor in channels_last beside others
that are not, rows of more than 1,024 elements, an image of 32 x 32 in 8 channels, an infinity
among numbers that are added, -0.0 as a number, two arguments together, positions beyond 256. Some
100 drawn cases of every operator in its first dtype, and in float16, bfloat16, int64 and bool, and
variations of small ones, were searched for conditions that none of its cases met; up to 14 were
added that meet the most of them. As much was done for *ordinary calls*, about which nothing is
degenerate: those that are written down (`ordinary_calls.py`), or the plainest that are drawn, each
in every layout beside every option, with sizes at thresholds, and with one value everywhere or in
the first row (`tools/shipped_cases.py reach`, `tests/support/adequacy/reach.py`). That added two
thirds to the shipped cases. The tables of this page were measured before. [Reported
bugs](real-bugs.md) says what that changed.
"""


def page(rows: Iterable[Mapping[str, Any]], version: str) -> Iterator[str]:
    """The page without the section of one element; ``rows`` are those of the selection."""
    rows = sorted(rows, key=lambda row: (row["operator"], row["dtype"]))
    shown = {(r["operator"], r["dtype"]): set(r["shown"]) for r in rows}
    noticed = {(r["operator"], r["dtype"]): set(r["noticed"]) & set(r["shown"]) for r in rows}
    having = [r for r in rows if r["cases"]]
    total, found = (sum(map(len, sets.values())) for sets in (shown, noticed))
    by_fault = _by_fault(rows)
    yield BEGIN.format(
        faults=len(by_fault),
        version=version,
        cases=sum(len(r["cases"]) for r in having),
        pairs=len(having),
        reported=reported(),
        size=sum(path.stat().st_size for path in FOLDER.glob("*.gz")),
        shown=total,
        noticed=found,
        share=found / max(total, 1),
    )
    yield "## By fault\n"
    yield "| fault | groups that show it | noticed |\n|---|---|---|"
    for name, (some, of) in sorted(by_fault.items(), key=lambda item: item[1][0] / item[1][1]):
        yield f"| {name} | {of:,} | {some / of:.1%} |"


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


def one_element(
    rows: Iterable[Mapping[str, Any]], added: Iterable[Mapping[str, Any]]
) -> Iterator[str]:
    """The section of one element that is 1% off. ``rows`` are those of
    :func:`.one_element.measured`, ``added`` those of :func:`.one_element.further`."""
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
                    operator, row["dtype"], row[direction] == "missed", direction == "forward"
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
    earlier = sum(row.get("by") == "selection" for row in rows)
    if earlier:
        yield (
            f"Of {len(rows) - earlier:,} operators × dtypes, those with gaps among them, whole "
            f"quick runs were measured; of the other {earlier:,} the\nshipped cases, when they "
            f"were chosen.\n"
        )
    shares = [case["share"] for row in added for case in row["found"]]
    if shares:
        yield (
            f"Where the cases chosen above miss it, some 200 further ones were tried "
            f"(`tools/shipped_cases.py further`); {len(shares)} groups gained\none. In "
            f"{sum(share >= 0.5 for share in shares)} of these it is noticed at half of the "
            f"elements or more. In the others it depends on the element: 1% of a bfloat16 is one "
            f"to three of\nits steps, and budgets of three roundings notice the three, just below "
            f"a power of two.\n"
        )
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


def reason(operator: Operator, dtype: str, shown: bool, forward: bool) -> str:
    """Why an element that is 1% off is not noticed."""
    if not shown:
        return NOTHING_ORDINARY
    if "random" in operator.traits:
        return "random numbers are judged by their distribution"
    if operator.family == "creation" and "empty" in operator.name:
        return NO_VALUE
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
