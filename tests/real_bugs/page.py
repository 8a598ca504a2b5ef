"""The page ``docs/real-bugs.md``: every reported bug, and after how many cases it is noticed."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from consistency.generate.shipped.cases import reported

from .lists import LISTS, TABLE, HeldOut
from .model import BUGS, Bug
from .outcomes import read
from .play import QUICK
from .reasons import REASONS

FILE = Path(__file__).parents[2] / "docs" / "real-bugs.md"
TOPICS = {
    "special values": "Elementwise functions at special values",
    "accumulations": "Accumulations with NaN, infinities and overflow",
    "sizes": "Sizes and leftovers",
    "layouts": "Layouts, memory formats, conjugate bits",
    "integers": "Integers, bytes and bool",
    "arguments": "Arguments and their combinations",
    "gradients": "Gradients",
    "contract": "Strides and formats of results",
    "held out": "A first list, collected after the inputs were chosen",
    "held out later": "A second list, collected after that",
    "third layouts": "A third list, of accelerators: layouts",
    "third sizes": "A third list, of accelerators: sizes",
    "third arguments": "A third list, of accelerators: arguments",
    "held out frameworks": "A fourth list, of compilers and frameworks: functions and integers",
    "held out frameworks windows": "A fourth list, of compilers and frameworks: windows and norms",
    "held out frameworks rows": "A fourth list, of compilers and frameworks: reductions, scans",
    "held out frameworks products": "A fourth list, of compilers and frameworks: products, views",
    "held out frameworks gradients": "A fourth list, of compilers and frameworks: gradients",
    "fifth list": "A fifth list, of various sources: layouts, values, arguments",
    "fifth list sizes": "A fifth list, of various sources: sizes and gradients",
    "sixth list": "A sixth list, of various sources: layouts, values, arguments, integers",
    "sixth list sizes": "A sixth list, of various sources: reductions and gradients",
    "seventh list": "A seventh list, mostly of PyTorch: layouts, values, arguments, integers",
    "seventh list sizes": "A seventh list, mostly of PyTorch: precision and gradients",
    "eighth list": "An eighth list, of various sources: values, dtypes, arguments, integers",
    "eighth list sizes": "An eighth list, of various sources: sizes and gradients",
    "ninth list": "A ninth list, of various sources: values, dtypes, arguments, integers",
    "ninth list sizes": "A ninth list, of various sources: windows, sizes, layouts",
    "ninth list reductions": "A ninth list, of various sources: reductions and gradients",
    "tenth list": "A tenth list, of various sources: values, dtypes, arguments, integers",
    "tenth list sizes": "A tenth list, of various sources: windows, sizes, layouts",
    "tenth list reductions": "A tenth list, of various sources: reductions and gradients",
    "eleventh list": "An eleventh list, of various sources: values, layouts, windows, indices",
    "eleventh list reductions": "An eleventh list, of various sources: rows, products, gradients",
    "twelfth list": "A twelfth list, of various sources: values, casts, windows, indices",
    "twelfth list reductions": "A twelfth list, of various sources: rows, systems, gradients",
    "thirteenth list": "A thirteenth list, of various sources: values, integers, windows, indices",
    "thirteenth list reductions": "A thirteenth list, of various sources: rows and gradients",
    "fourteenth list": "A fourteenth list, of various sources: values, comparisons, pixels, rows",
    "fourteenth list reductions": "A fourteenth list, of various sources: sums and gradients",
    "fifteenth list": "A fifteenth list, of various sources: values, comparisons, pixels, rows",
    "fifteenth list reductions": "A fifteenth list, of various sources: rows, systems, gradients",
    "sixteenth list": "A sixteenth list, of various sources: values, casts, pixels, indices",
    "sixteenth list reductions": "A sixteenth list, of various sources: rows, products, gradients",
    "seventeenth list": "A seventeenth list, of various sources: values, views, pixels",
    "seventeenth list reductions": "A seventeenth list, of various sources: rows, gradients",
    "eighteenth list": "An eighteenth list, of torch's own backends: values, pixels, casts",
    "eighteenth list reductions": "An eighteenth list, of torch's own backends: rows, gradients",
    "nineteenth list": "A nineteenth list, of torch's own backends: signs, casts, places",
    "nineteenth list reductions": "A nineteenth list, of torch's own backends: rows, attention",
    "twentieth list": "A twentieth list, of torch's own backends: bits, images, casts, remainders",
    "twentieth list reductions": "A twentieth list, of torch's own backends: rows, attention",
    "twentyfirst list": "A 21st list, of torch's own backends: special numbers, places, copies",
    "twentyfirst list reductions": "A 21st list, of torch's own backends: sums, layers, gradients",
    "twentysecond list": "A 22nd list, of all backends: functions, whole numbers, places",
    "twentysecond list reductions": "A 22nd list, of all backends: sums, layers, gradients",
    "twentythird list": "A 23rd list, of torch's own backends: functions, places, dtypes",
    "twentythird list reductions": "A 23rd list, of torch's own backends: sums, layers, gradients",
    "twentyfourth list": "A 24th list, of torch's own backends: functions, windows, sizes",
    "twentyfourth list reductions": "A 24th list, of torch's own backends: sums, lists, attention",
    "twentyfifth list": "A 25th list, of torch's own backends",
    "twentysixth list": "A 26th list, of torch's own backends",
    "twentyseventh list": "A 27th list, of torch's own backends",
    "twentyeighth list": "A 28th list, of torch's own backends: Inductor, the CPU, XPU",
    "twentyeighth list devices": "A 28th list, of torch's own backends: CUDA, MPS, ROCm",
    "twentyninth list": "A 29th list, of other frameworks",
    "thirtieth list": "A 30th list, of what pull requests to torch repaired",
    "thirtieth list compilers": "A 30th list, of XPU and of what converts torch's programs",
    "thirtyfirst list": "A 31st list, of torch's backends",
    "thirtyfirst list frameworks": "A 31st list, of other frameworks",
    "thirtysecond list": "A 32nd list, of torch's backends",
    "thirtysecond list frameworks": "A 32nd list, of other frameworks",
    "thirtythird list": "A 33rd list, of torch's backends",
    "thirtythird list frameworks": "A 33rd list, of other frameworks",
    "thirtyfourth list": "A 34th list, of torch's backends",
    "thirtyfourth list frameworks": "A 34th list, of other frameworks",
    "thirtyfifth list": "A 35th list, of torch's backends",
    "thirtyfifth list frameworks": "A 35th list, of other frameworks",
    "thirtysixth list": "A 36th list, of torch's backends",
    "thirtysixth list frameworks": "A 36th list, of other frameworks",
    "thirtyseventh list": "A 37th list, of torch's backends",
    "thirtyseventh list frameworks": "A 37th list, of other frameworks",
    "thirtyeighth list": "A 38th list, of torch's backends",
    "thirtyeighth list frameworks": "A 38th list, of other frameworks",
    "thirtyninth list": "A 39th list, of torch's backends",
    "thirtyninth list frameworks": "A 39th list, of other frameworks",
    "fortieth list": "A 40th list, of torch's backends",
    "fortieth list fixes": "A 40th list, of what was repaired in torch",
    "fortieth list frameworks": "A 40th list, of other frameworks",
    "fortieth list engines": "A 40th list, of engines and libraries",
}
BEGIN = """# Reported bugs, and whether a run notices them

For whoever wants to know what the drawn inputs reach, or adds inputs. Afterwards you know for
{total} publicly reported wrong results of 2023 to 2026 after how many cases a run fails on them.

Each row is emulated as a backend of the tests (`tests/real_bugs/`): torch on the CPU with exactly
the reported defect under the reported condition. The emulations are ours; the reports are taken
for the facts only. *Case 4, float32* says that the fourth case of an operator × dtype failed
first. A quick run (`consistency run`) has the shipped cases, then 2 fresh ones, then a long one;
others have 50 or 200 fresh ones. Among the shipped cases are inputs of these reports, as far as
they are small ({shipped} of them). Beside every bug a healthy backend computes the same on the same
cases; none of them may be accused.

| | in a quick run | with 50 fresh cases | with 200 | not noticed | handed the report's input |
|---|---|---|---|---|---|
| {total} bugs | {quick} | {fifty} | {most} | {never} | {handed} of {inputs} |

Causes named rightly, of those noticed whose cause has a name: {right} of {named}.
`python tools/real_bugs.py` measures again and writes this page; a test fails when a bug that the
table lists as noticed by a quick run no longer is, or when a healthy backend is accused.

The rows of the first eight sections flatter: inputs were chosen with them in view. Lists of
further reports were therefore collected by somebody who had not seen how inputs are drawn, taken as
a search gave them, and measured before anything was changed for them: {of} reports, of which a
quick run noticed {noticed}. Ten healthy twins were accused: one was written wrongly, eight met
defects of torch's own that are expected by the CPU's name only (one was not yet), one a NaN whose
weight is 0.
**Of a new report, expect a half to nine tenths to be noticed by a quick run** (the last list:
{last}), least where only torch's own backends are asked. What helps one list seldom helps the next:
what is still wrong there is wrong where several conditions meet. Other frameworks' test suites
(tinygrad, torch-mlir, FlagGems, Core ML Tools, ExecuTorch, PyTorch/XLA, torch-xpu-ops) gave 4,024
calls that met what no case did; they are among the shipped ones. So are the calls of some 3,800
further public reports of all kinds of backends (6,300 calls, with the reports' shapes, layouts,
options and, where few, numbers), which nobody has emulated. A search for reports that was made
anew found 16 of the 24 of the 23rd list among 1,811: two thirds of what a search gives are among
them.

{lists}
What C does not define is not judged (casts of infinities and of numbers that no byte holds), nor
the place of equal largest numbers; a tensor of 2³¹ elements needs the profile `large`.

A new row is a function with a header in one of the modules of `tests/real_bugs/`;
[adding a fault](adding-a-fault.md) explains what a deed is. What is not noticed stays listed, with
the reason.
"""


def page() -> str:
    """The page as Markdown."""
    table = read()
    rows = {bug.issue: table.rows.get(bug.issue) or {} for bug in BUGS}
    named = [bug for bug in BUGS if bug.causes and rows[bug.issue].get("within")]
    within = [row.get("within") or 0 for row in rows.values()]
    text = BEGIN.format(
        total=len(BUGS),
        quick=sum(0 < n <= QUICK for n in within),
        fifty=sum(0 < n <= 50 for n in within),
        most=sum(0 < n <= 200 for n in within),
        never=within.count(0),
        handed=sum(row.get("handed") is True for row in rows.values()),
        inputs=sum(row.get("handed") is not None for row in rows.values()),
        right=sum(rows[bug.issue]["cause"] in bug.causes for bug in named),
        named=len(named),
        shipped=reported(),
        of=sum(each.of for each in LISTS),
        noticed=sum(each.quick for each in LISTS),
        last=f"{100.0 * LISTS[-1].quick / LISTS[-1].of:.0f}%",
        lists=TABLE + "".join(f"{each.row(_since(rows, each))}\n" for each in LISTS),
    )
    for topic, title in TOPICS.items():
        text += f"\n## {title}\n\n"
        text += "| report | what is wrong | noticed | cause, or why not |\n|---|---|---|---|\n"
        text += "".join(_lines((b, rows[b.issue]) for b in BUGS if b.topic == topic))
    return text


def _since(rows: dict[str, dict[str, Any]], held_out: HeldOut) -> int:
    """How many reports of a list a quick run notices now."""
    bugs = [bug for bug in BUGS if fnmatch.fnmatchcase(bug.topic, held_out.topics)]
    assert len(bugs) <= held_out.of
    return sum(0 < (rows[bug.issue].get("within") or 0) <= QUICK for bug in bugs)


def _lines(rows: Iterable[tuple[Bug, dict[str, Any]]]) -> Iterable[str]:
    for bug, row in rows:
        operators = ", ".join(f"`{name.removeprefix('nn.functional.')}`" for name in bug.operators)
        report = f"[{bug.issue.rpartition('/')[2]}]({bug.url})"
        yield (
            f"| {report} | {bug.what} ({bug.where}: {operators}) "
            f"| {_noticed(row)} | {_why(bug, row)} |\n"
        )


def _noticed(row: dict[str, Any]) -> str:
    if not row.get("within"):
        return "no" if row.get("handed") is not False else "no, nor handed its input"
    fresh = f", with {row['within']} fresh ones" if row["within"] > QUICK else ""
    return f"case {row['case']}, {row['on'].split()[-1]}{fresh}"


def _why(bug: Bug, row: dict[str, Any]) -> str:
    if row.get("within"):
        cause = f"`{row['cause']}`" if row["cause"] else "–"
        expected = " or ".join(f"`{cause}`" for cause in bug.causes)
        return f"{cause}; expected {expected}" if expected and cause != expected else cause
    reason = REASONS.get(bug.issue, "")
    if row.get("touched"):
        forgave = ", ".join(row.get("forgave", {}))
        return f"{row['touched']} of {row['drawn']} cases show it: {forgave}. {reason}".strip()
    return f"drawn in 0 of {row.get('drawn', 0)} cases{': ' + reason if reason else ''}"
