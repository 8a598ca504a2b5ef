"""The page ``docs/real-bugs.md``: every reported bug, and after how many cases it is noticed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from consistency.generate.shipped.cases import reported

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

The rows of the first eight sections flatter: inputs were chosen with them in view. A list of 26
further reports was therefore measured before anything was changed for it: a quick run noticed 13 of
them, 50%. What it missed were narrow conditions that no case met (a contiguous slice that begins
some rows into its storage, -0.0 as a number, an infinity in a product, an image of 32 x 32 in 8
channels, a row of more than 1,024, positions beyond 256). Cases of every operator were therefore
chosen that meet them (`tools/shipped_cases.py reach`), and one of eight drawn cases is varied so:
{first} of the 26 are noticed since. A second list, of 14 reports, two of them of operators that are
not declared (`nextafter`, `topk` into `out=`), was collected after that: a quick run noticed 4,
before the first list was worked on and after. So what helped the one list did not help the other.
Its conditions were then added (one tensor alone in a layout, batches of larger systems, squares
beyond float16): {later} since.

A third list, of 45 reports of accelerators (MPS, CUDA, ROCm, XPU, DirectML, TT-NN and others),
was taken as a search gave it and measured before any change: a quick run noticed 21, 47%, and 50
fresh cases 24. What was missed were, once more, conditions that no case met or that two
conditions met only apart: channels innermost beside kernels of more than one pixel, factors of C
x 1 x 1 beside an image, a bound that is a fraction beside whole numbers, batches of more than
2^14 rows, and float32's cases that half precision lacked. Whole dimensions of variation are
therefore tried (`consistency/generate/varied/`): every tensor in every layout, every size at
every threshold, ranks, patterns of broadcasting, options in pairs, numbers of the other kind.
Variations of drawn cases helped little, because what else was odd about them hid the condition;
those of ordinary calls helped more. The cases that reach most of what no other does are shipped,
in half and double precision, too. {third} of the 45 are noticed since, with the list in view.
**Of a new report, expect half to four fifths to be noticed by a quick run** (the fifth to the
eighteenth list), and more by a longer one.

A fourth list, of 42 reports of compilers and other frameworks (Inductor, Triton, ONNX Runtime,
OpenVINO, XLA, TensorFlow, MLX, Core ML, TVM and others), was measured when it was complete and
before anything was changed for it: a quick run noticed 24, 57%, and 50 fresh cases 28; 14 of the 16
with a small input failed when they were handed it; of 16 whose cause has a name, 10 were named
rightly. A 43rd report concerns an operator that is not declared (`fractional_max_pool2d`).
Classes of inputs that were never drawn were then added (numbers whose squares leave the format,
equal operands, windows as large as the image, kernels of even size, a divisor of 1), and causes
that had no simulation. {fourth} of the 42 are noticed by a quick run since, with the list in view.

A fifth list, of 24 reports of 2024 to 2026 from eighteen programs (MPS, XPU, ROCm, Inductor, MLX,
candle, burn, tinygrad, TT-NN, OpenVINO, ONNX Runtime's WebGPU and others), was chosen for variety
without a look at what is drawn, and measured when it was complete: a quick run noticed 16, 67%, and
50 fresh cases 18. Of the others no case met the condition, which joined two things that are drawn
apart (channels_last and padding), or needed a size (524,281 right sides) or a number (10⁶ beside a
divisor) that is rare. {fifth} of them are noticed by a quick run since, with the list in view.

A sixth list, of 27 reports of 2023 to 2026 from twenty programs (MPS, XPU, ROCm, Inductor, ggml,
candle, burn, MLX, tinygrad, TVM, OpenVINO, TensorRT, DirectML, CuPy, MAX, TT-NN and others), was
chosen like the fifth, by somebody who had not seen how inputs are drawn, and measured when it was
complete: a quick run noticed 22, **81%**, and 50 fresh cases 24, 89%; nothing healthy was accused.
Missed were labels that are ignored by a number that is no class, whole numbers divided by one of
Python's, more than 50,000 bins, and two layouts beside other conditions. What was missed of the
fifth and the sixth list showed that ordinary calls had been chosen without gradients, and written
down for 45 operators only: nearly all have them now (forms with `out` and methods do not), with
gradients, layouts beside options, and tensors of one value. {sixth} of the 27 are noticed by a
quick run since.

A seventh list, of 24 reports of 2023 to 2026 (MPS, Inductor, XPU, oneDNN on ARM, and six other
programs), was chosen in the same way, eight of them in half precision or whole numbers, seven about
gradients: a quick run noticed 14, **58%**, and 50 fresh cases 15; nothing healthy was accused.
Missed were the layouts and sizes of attention as models have them (heads cut from the columns of
rows, 64 or 128 numbers a head, eight queries), numbers just beyond a bound that the call names,
quotients of exactly 1, one number of float32 beside tensors of float16, single bool elements
behind others, an expanded cotangent beside the default of an option, images brought to many times
their size, and reductions of nothing. All of these are variations of every operator now
(`consistency/generate/varied/`), and ordinary calls are shipped in float16, int64 and bool,
too. {seventh} of the 24 are noticed by a quick run since.

An eighth list, of 24 reports of 2024 to 2026 (PyTorch, MLX, burn, TT-NN, JAX, OpenVINO, Paddle,
FlagGems and others), was chosen in the same way: a quick run noticed 12, **50%**, and 50 fresh
cases 14. Missed were, for the greater part, domains that operators' own declarations left narrow:
whole numbers other than 0 and 1 in `any`, exponents of `ldexp` that are floats, rows of boundaries
and slices of them, thresholds beyond the overflow of the exponential, wide least squares; then long
rows beside options, channels and pixels of published models, and broadcasting both ways in
bfloat16. The declarations of all operators were gone through and widened, long rows and layers of
models are among the cases of every run, and a gradient that could not be proved now is. {eighth} of
the 24 are noticed by a quick run since.

A ninth list, of 26 reports of 2023 to 2026 from eighteen programs (PyTorch, TensorFlow, JAX, MLX,
Paddle, TT-NN, OpenVINO, TVM, MAX, DirectML, FlagGems, llama.cpp, burn and others), was chosen in
the same way: a quick run noticed 20, **77%**, and 50 fresh cases no more; nothing healthy was
accused. Missed were imaginary parts beyond the overflow of the exponential, NaN in `unique`, the
ordinary window of 3 x 3 pixels that keeps an image's size, a mask of the least number over a whole
block of keys, four images of 180 channels side by side, and a margin that half precision rounds.
{ninth} of the 26 are noticed by a quick run since.

A tenth list, of 27 reports of 2023 to 2026 from eighteen programs (PyTorch, TensorFlow, JAX, MLX,
TVM, OpenVINO, ONNX Runtime, ExecuTorch, TT-NN, CUDA.jl, dpnp, hipBLASLt, Liger, llama.cpp, burn and
others), was chosen in the same way: a quick run noticed 19, **70%**, and 50 fresh cases 21, 78%;
nothing healthy was accused. Missed were whole exponents beyond the bits of the result, sizes of a
transform without its dimensions, a correction of more than the elements, a row times a column of
more than 2,048, images in channels_last brought to twice their size, fillings that float32 does not
hold, a pixel exactly between two, and a gradient at log 0. For all but the last, cases are shipped
since, and the kinds that were not drawn are drawn; of the last, an infinity of the wrong sign, the
judge says that neither is proved. {tenth} of the 27 are noticed by a quick run since.

An eleventh list, of 30 reports of 2023 to 2026 from thirty programs, was chosen in the same way,
after options of other classes had come in: a quick run noticed 25, **83%**, and 50 fresh cases 26;
nothing healthy was accused. Two were missed by the judge: it admitted a whole divisor as the
remainder of a multiple, and an expectation of what torch does among bounds with NaN hid what
another program does with NaN itself. Three were calls that nobody had drawn because they are too
plain: an image enlarged by a fraction, and no option beside it; a number for each channel beside an
image in channels_last; a diagonal that stands before another index. For every operator, calls with
one or two options and ordinary tensors are shipped since, and images beside factors. {eleventh} of
the 30 are noticed by a quick run since.

A twelfth list, of 24 reports of 2023 to 2026 from 24 programs, was chosen in the same way after
plain calls had come in: a quick run noticed 22, **92%**, and 50 fresh cases no more; nothing
healthy was accused. Missed were a cast of floats that no byte holds, of which C defines nothing,
and matrices that cannot be eliminated without exchanging rows. {twelfth} of the 24 are noticed by a
quick run since.

A thirteenth list, of 24 reports of 2023 to 2026 from 24 programs, was chosen in the same way: a
quick run noticed 19, **79%**, and 50 fresh cases 20. All twelve of reductions, normalizations and
gradients were noticed; of the twelve others five were not: an operator that was not declared
(`nextafter`), subnormal numbers among zeros that are sorted, two integers that agree in their low
32 bits (noticed by 50 cases), and two that cannot be accused: torch does not say whether fractional
ends of a range of integers are cut first, and the pixels of an image that keeps its size are proved
right by the formula, of which torch's CPU makes a copy. Two healthy twins failed: one did not write
what its operator writes (mended), the other met a defect of torch's own `median`, which is expected
by the CPU's name only. {thirteenth} of the 24 are noticed by a quick run since.

A fourteenth list, of 24 reports of 2023 to 2026 from 23 programs, was chosen in the same way: a
quick run noticed 20, **83%**, and 50 fresh cases 21; nothing healthy was accused. Missed were
infinities of `nan_to_num` in half precision (noticed by 50 cases), lengths of -1 in transforms,
rows that are gathered by an expanded index, and pixels exactly halfway between two others.
All four are drawn now; the expanded index showed at once that torch 2.4.1 gathers wrongly on the
CPU, too. {fourteenth} of the 24 are noticed by a quick run since.

A fifteenth list, of 24 reports of 2023 to 2026 from 24 programs, was chosen in the same way, and is
the worst of the later ones: a quick run noticed 15, **62%**, and 50 fresh cases 16; nothing healthy
was accused. Eight were never drawn: volumes of more than four channels (grid_sample), two infinite
bounds, an image of one pixel beside the bicubic filter, the gradient of eigenvectors, one query
beside more than 512 keys, a matrix times its own transposed view, matrices that are singular, and
sequences without an alignment in ordinary numbers. Two of these were missed by the judge, too, once
they were drawn: it could prove neither the pseudo-inverse of a singular matrix nor that the
gradient of a loss that is made 0 is 0. All are drawn and proved now. Of what came with them, torch
loses the gradient of singular vectors of large complex matrices. {fifteenth} of the 24 are noticed
by a quick run since.

A sixteenth list, of 24 reports of 2023 to 2026 from 23 programs, was chosen in the same way, and
measured twice before anybody looked at what it missed: a quick run noticed 19, **79%**, and 50
fresh cases 21; after calls that the tests of seven other programs make (tinygrad, torch-mlir,
FlagGems, Core ML Tools, ExecuTorch, PyTorch/XLA, torch-xpu-ops) had come in, 20, **83%**, and 50
fresh cases 22. Missed were casts of which C defines nothing, the gradient of the norm of zeros,
the nearest of two pixels that are equally near where corners are not aligned, and the gradient of
a depthwise causal convolution that arrives in another layout. A healthy twin failed: of the
largest numbers torch's own `gelu` is wrong, which is expected by the CPU's name only. {sixteenth}
of the 24 are noticed by a quick run since.

A seventeenth list, of 24 reports of 2023 to 2026 from 23 programs, was chosen in the same way: a
quick run noticed 18 of them, **75%**, and 50 fresh cases 19, **79%**. Two were not proved: the
sign bit of a NaN that is given (our proof did not know it), and a gradient that is infinite of the
wrong sign. `rsqrt` was not drawn at 0, recurrent networks did not begin with states of zeros,
subnormal numbers did not lie beside −0 alone, and views seldom met a tensor of one element. All
are proved and drawn now. What C does not define of a cast is not judged. Two healthy twins failed:
of `batch_norm` and `embedding_bag` torch's own float64 has known defects, which are expected by
the CPU's name only. {seventeenth} of the 24 are noticed by a quick run since.

An eighteenth list, of 24 reports of 2024 to 2026 about torch's own backends only (MPS, CUDA, XPU,
Inductor, ExecuTorch, XLA), was chosen in the same way, and it went worst of all: a quick run
noticed 11 of them, **46%**, and 50 fresh cases 12, **50%**; nothing healthy was accused of what is
not a known defect of torch's. What these kernels still do wrongly, they do where several things
meet: a mask for each item of a batch beside a head of 64 and few queries, a sum of exponentials
below e⁻⁸⁸ beside 192 keys, everything dropped between recurrent layers, `zero_infinity` of int32
labels that stand one after the other, a view of booleans that begins inside a word. All of these
are drawn and shipped now. `sinh` was drawn up to where torch's own vectors overflow: it is drawn
to its end now, and expected there of the CPU by condition. Not judged are casts of infinities,
which C does not define, the place of equal largest numbers, and how `linspace` rounds between whole
numbers; a tensor of 2³¹ elements needs the profile `large`. {eighteenth} of the 24
are noticed by a quick run since.

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
        first=_quick(rows, "held out"),
        later=_quick(rows, "held out later"),
        fifth=sum(_quick(rows, topic) for topic in TOPICS if topic.startswith("fifth")),
        sixth=sum(_quick(rows, topic) for topic in TOPICS if topic.startswith("sixth")),
        seventh=sum(_quick(rows, topic) for topic in TOPICS if topic.startswith("seventh")),
        eighth=sum(_quick(rows, topic) for topic in TOPICS if topic.startswith("eighth")),
        ninth=sum(_quick(rows, topic) for topic in TOPICS if topic.startswith("ninth")),
        tenth=sum(_quick(rows, topic) for topic in TOPICS if topic.startswith("tenth")),
        thirteenth=sum(_quick(rows, topic) for topic in TOPICS if topic.startswith("thirteenth")),
        fifteenth=sum(_quick(rows, topic) for topic in TOPICS if topic.startswith("fifteenth")),
        sixteenth=sum(_quick(rows, topic) for topic in TOPICS if topic.startswith("sixteenth")),
        eighteenth=sum(_quick(rows, topic) for topic in TOPICS if topic.startswith("eighteenth")),
        seventeenth=sum(_quick(rows, topic) for topic in TOPICS if topic.startswith("seventeenth")),
        fourteenth=sum(_quick(rows, topic) for topic in TOPICS if topic.startswith("fourteenth")),
        twelfth=sum(_quick(rows, topic) for topic in TOPICS if topic.startswith("twelfth")),
        eleventh=sum(_quick(rows, topic) for topic in TOPICS if topic.startswith("eleventh")),
        fourth=sum(_quick(rows, topic) for topic in TOPICS if "frameworks" in topic),
        third=sum(_quick(rows, topic) for topic in TOPICS if topic.startswith("third")),
    )
    for topic, title in TOPICS.items():
        text += f"\n## {title}\n\n"
        text += "| report | what is wrong | noticed | cause, or why not |\n|---|---|---|---|\n"
        text += "".join(_lines((b, rows[b.issue]) for b in BUGS if b.topic == topic))
    return text


def _quick(rows: dict[str, dict[str, Any]], topic: str) -> int:
    """How many bugs of a section a quick run notices."""
    within = [rows[bug.issue].get("within") or 0 for bug in BUGS if bug.topic == topic]
    return sum(0 < n <= QUICK for n in within)


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
