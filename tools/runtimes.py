"""Writes docs/runtimes.md from the bundles of runs with a runtime as backend, judges a case of each
known divergence again, and runs the scripts beside it (five minutes of processor time).

    python tools/runtimes.py BUNDLE ... [-o docs/runtimes.md]

A bundle is what ``consistency run --backend cpu --backend onnxruntime --out BUNDLE`` leaves. The
scripts in docs/runtimes/ need torch, onnx, onnxscript and onnxruntime only; one that no longer
shows a divergence ends this program.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from consistency.backends.runtimes.onnx_runtime import OnnxRuntime
from consistency.core.detail import NotBegun
from consistency.core.model import Case, Result
from consistency.core.verdict import VerdictKind
from consistency.diagnose.diagnosis_budget import DiagnosisBudget
from consistency.diagnose.evaluation import evaluate
from consistency.diagnose.known_results import expected
from consistency.judge import tolerances
from consistency.judge.known.entries import Expectation
from consistency.storage import bundle

DOCS = Path(__file__).parents[1] / "docs"
SCRIPTS = DOCS / "runtimes"
RUNTIME = "onnxruntime"
_NOT_TRANSLATED = (VerdictKind.UNSUPPORTED, VerdictKind.UNAVAILABLE)
_KNOWN = VerdictKind.KNOWN
_CASES = 1  # of each entry that is judged again


def main(arguments: list[str]) -> None:
    target = DOCS / "runtimes.md"
    if "-o" in arguments:
        place = arguments.index("-o")
        target = Path(arguments[place + 1])
        del arguments[place : place + 2]
    folders = [Path(name) for name in arguments]
    latest = {
        result.key: result
        for folder in folders
        for result in bundle.read_results(folder)
        if result.backend.startswith(RUNTIME) and not isinstance(result.detail, NotBegun)
    }
    rules, backend = tolerances.load(), OnnxRuntime()  # entries may be newer than the run
    results = [
        expected(result, rules, backend) if result.verdict.fails else result
        for result in latest.values()
    ]
    proved = stages(target.read_text(encoding="utf-8")) if target.exists() else {}
    text = "\n".join(page(results, versions(folders[-1]), proved))
    target.write_text(text + "\n", encoding="utf-8")
    print(f"wrote {target}: {len(results)} results, {len(scripts())} scripts")


def versions(folder: Path) -> str:
    about = next(
        about for name, about in bundle.read_environment(folder).items() if name.startswith(RUNTIME)
    )
    return ", ".join(f"{name} {about[name]}" for name in ("torch", *OnnxRuntime.PACKAGES))


def stages(text: str) -> dict[str, str]:
    """Which stage errs, as an earlier page proved it, by the first cells of an entry's row."""
    rows = [line.rpartition(" | ")[0].rpartition(" | ") for line in text.splitlines()]
    return {begin: found for begin, _, found in rows if begin and found not in ("–", "errs")}


def page(results: list[Result], software: str, proved: dict[str, str]) -> Iterator[str]:
    translated = {r.operator for r in results if r.verdict.kind not in _NOT_TRANSLATED}
    operators = {r.operator for r in results}
    yield _BEGIN.format(
        versions=software,
        results=f"{len(results):,}",
        operators=len(operators),
        translated=len(translated),
        dtypes=", ".join(sorted({r.dtype for r in results})),
    )
    yield from families(results)
    yield from divergences(results, proved)
    yield from found(results)
    yield _ISSUES
    yield from shown()


def families(results: Iterable[Result]) -> Iterator[str]:
    """A row per family: operators, those translated, results by kind."""
    rows: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        rows[result.family].append(result)
    yield "| family | operators | translated | right | known | fails | not tested |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for family, members in sorted(rows.items()):
        names = {r.operator for r in members}
        done = {r.operator for r in members if r.verdict.kind not in _NOT_TRANSLATED}
        kinds = Counter(
            "fails"
            if r.verdict.fails
            else "known"
            if r.verdict.kind is _KNOWN
            else "right"
            if r.verdict.kind in (VerdictKind.EXACT, VerdictKind.ROUNDING)
            else "not tested"
            for r in members
        )
        counts = " | ".join(str(kinds[kind]) for kind in ("right", "known", "fails", "not tested"))
        yield f"| {family} | {len(names)} | {len(done)} | {counts} |"
    yield ""


def divergences(results: Iterable[Result], proved: dict[str, str]) -> Iterator[str]:
    """The expectations for runtimes, by operator: condition, which stage errs (in these runs, or as
    an earlier page ``proved``), reason."""
    yield _DIVERGENCES
    yield "| operators | dtypes | where | verdicts | errs | why |"
    yield "|---|---|---|---|---|---|"
    entries = [e for e in tolerances.load().expectations if e.backend.startswith(RUNTIME)]
    known = [result for result in results if result.known]
    for entry in sorted(entries, key=lambda entry: entry.operator.lstrip("*")):
        where = f"`{entry.when}`" if entry.when else "depends on the numbers"
        kinds = ", ".join(str(verdict) for verdict in entry.verdicts)
        dtypes = f"`{entry.dtype}`" if entry.dtype and entry.dtype != "*" else "all"
        begin = f"| `{entry.operator}` | {dtypes} | {where} | {kinds}"
        errs = stage(entry, known) or proved.get(begin, "–")
        yield f"{begin} | {errs} | {_cell(entry.reason)} |"
    yield ""


def stage(entry: Expectation, known: Iterable[Result]) -> str:
    """Where the entry's first cases err, judged again without expectations; empty where
    nothing is proved or no case is at hand."""
    covered = [
        result
        for result in known
        if entry.speaks_of(
            operator=result.operator, dtype=result.dtype, direction=result.direction,
            backend=result.backend, device="cpu",
        )
        and entry.describes(result.case)
        and result.known
        and result.known.verdict in entry.verdicts
    ]  # fmt: skip
    found = {origin for result in covered[:_CASES] if (origin := origin_of(result.case))}
    return " or ".join(sorted(found))


def origin_of(case: Case) -> str:
    """``translation`` or ``runtime``; empty if nothing is proved, or if the case fails no more."""
    rules = replace(tolerances.load(), expectations=())
    (result,) = evaluate(
        case, [OnnxRuntime()], rules, directions=("forward",), diagnosis_budget=DiagnosisBudget()
    )
    evidence = result.evidence
    return evidence.origin.stage if evidence and evidence.origin else ""


def found(results: Iterable[Result]) -> Iterator[str]:
    """Failing groups that no expectation covers."""
    groups: dict[tuple[str, str], Result] = {}
    for result in results:
        if result.verdict.fails:
            groups.setdefault((result.operator, result.verdict.value), result)
    if groups:
        yield "## Not entered yet\n"
        for (operator, verdict), result in groups.items():
            yield f"- `{operator}` {verdict}: {_cell(result.explanation)[:240]}"
        yield ""


def shown() -> Iterator[str]:
    """Each script with what it prints."""
    yield _SCRIPTS
    for script in scripts():
        source = script.read_text(encoding="utf-8")
        title = " ".join((ast.get_docstring(ast.parse(source)) or "").split())
        run = subprocess.run(
            [sys.executable, "-W", "ignore", str(script)], capture_output=True, text=True,
            check=False, timeout=300,
        )  # fmt: skip
        if run.returncode:
            raise SystemExit(f"{script.name} shows no divergence: {run.stderr.strip()[-300:]}")
        body = re.search(r"        return (.*?)\n\n\n", source, re.DOTALL)
        call = " ".join(body[1].split()) if body else script.stem
        yield f"**{title}** [{script.name}](runtimes/{script.name})\n"
        yield f"```text\n{call}\n{run.stdout.strip()}\n```\n"


def scripts() -> list[Path]:
    return sorted(SCRIPTS.glob("*.py"))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


_BEGIN = """# Runtimes: what an exported operator computes

For whoever exports models, or gets another result from ONNX Runtime than from PyTorch.
Afterwards you know which operators differ, why, and
whether the translation or the runtime is to blame. This page is made by `tools/runtimes.py` from
a run; {versions}.

```console
$ pip install "consistency[onnxruntime]"
$ consistency run --backend cpu --backend onnxruntime
```

Each call is exported by `torch.onnx.export`, once per signature (operator, dtypes, shapes, other
arguments), and run in a worker process with the
same bits as in torch ([backends](backends.md) has the switches). What the exporter cannot
translate is `unsupported`, with its reason. There are no gradients and no
complex inputs, and operators that draw random numbers are left out.

## The translation or the runtime

Where a case fails, onnx's reference evaluator runs the same graph, in its own dtypes and in
float64, and each answer is judged like the runtime's:

- right in the graph's own dtypes: **the runtime** errs;
- wrong in both, and the same answer as the runtime's: **the translation** errs. If one other
  attribute, constant or opset makes the graph right, it is named
  (`Softmax's axis is 1, and right with 2`), else the nodes are;
- right in float64 only, and there are several nodes: **the translation** errs, because its steps
  lose precision;
- anything else proves nothing, and nothing is said: the evaluator has faults of its own.

Of 20 faults planted in graphs and 20 planted in results, all 40 are told apart, and none of 20
healthy twins is accused (`tests/diagnose/test_graph_origin.py`).

Whole models, and ONNX files that you were given, are compared by `consistency check-onnx` and
`consistency model`: [exported models](exported-models.md).

## What was run

{results} results of {operators} operators in {dtypes}; {translated} operators translate.
Of all 1,166 operators that have float32 and draw no random numbers, 869
translate, by their first shipped case (`tools/translated.py`, torch 2.13.0).
"""
_DIVERGENCES = """## What diverges, and why

Look up your operator (they are sorted by name; `*` and `?` stand for any letters and one letter).
`errs` is the stage that a case proves, as described above: **translation** means that another
runtime gets the same graph and the same error, so rewrite the call or export it otherwise;
**runtime** means that the graph is right, so another execution provider or version may be. A dash
means that nothing is proved, and then the reason says what is known. These are entries of
[tolerances.yaml](../tolerances.yaml); their verdict is `known`.
"""
_ISSUES = """## Issue texts

ReduceMin and ReduceMax with NaN are reported publicly (microsoft/onnxruntime#10514), and the
older exporter refused divisor_override (pytorch/pytorch#105349). For the following a short
search found no public thread (none was made for sums of int64); the scripts below are the
reproducers.

> **torch.onnx.export(dynamo=True) drops label_smoothing, divisor_override and the weight of
> l1_loss without a word.** `cross_entropy(x, y, label_smoothing=0.5)` becomes
> SoftmaxCrossEntropyLoss, which has no such attribute, `avg_pool2d(x, 2, divisor_override=1)`
> AveragePool, which has none either, and `l1_loss(x, y, weight=w)` a graph without w. The
> results are those of other arguments. An exporter that cannot translate an argument should say
> so, as the older one did.

> **onnxscript: expm1, log1p, erfc and logsigmoid lose all digits of small results.** They are
> translated as exp(x) - 1, log(1 + x), 1 - erf(x) and log(sigmoid(x)): expm1(1e-10) is 0 in
> place of 1e-10. A few terms of the series where x is small, chosen by Where, need no operator
> that ONNX lacks.

> **torch.onnx.export: a clamp with one bound becomes Clip, whose other bound is finite.** ONNX
> defines the bounds of Clip to default to the lowest and the largest finite number, and ONNX
> Runtime does so (onnx's reference evaluator does not): `clamp_min(inf, 0)` is 3.4028235e38.
> Max or Min in place of Clip keeps infinity.

> **torch.onnx.export: abs, sum, cumsum and mse_loss of float16 give float32.** The graph of
> `torch.abs(x)` is Cast to float32 and Abs, without a Cast back, so the output (and what
> follows it) has another dtype than in torch. The same holds for bfloat16.

> **onnxscript: the optimizer takes constants up to 1e-8 for 0, and those within 1e-5 of 1 for 1.**
> `torch.log(x + 1e-9)` is exported as `Log` alone, which is -infinity for 0, `x - 1e-8` and
> `x * 1.000001` as `Identity`, and the tolerance of `torch.isclose(x, y)` (1e-8) is gone. Patterns
> of the rewriter (`x + 0`, `x * 1`) are matched with `math.isclose(rel_tol=1e-5, abs_tol=1e-8)`.
> With `optimize=False` the constants are there. A neutral element should be matched exactly.
> (MIGraphX had the same defect: ROCm/AMDMIGraphX#2659.)

> **torch.onnx.export in float64: isinf goes through float32, and constants are rounded to it.**
> `isinf(1e300)` is True, and `deg2rad`, `rad2deg` and `nan_to_num` use factors and bounds of eight
> digits.

> **ONNX Runtime: ReduceSum of int64 is computed in float64.** The sum of 2^53 + 1 and 0 is 2^53,
> and a sum or product that overflows saturates in place of wrapping around.

> **ONNX Runtime: Elu, Celu and Selu are exp(x) - 1 on the CPU.** Elu of -3e-9 is 0, and of
> -1e-4 wrong from the fourth digit on; `std::expm1` is right.
"""
_SCRIPTS = """## Scripts

Each needs torch, onnx, onnxscript and onnxruntime only. The true values are proved in ball
arithmetic in runs of the same calls, or follow from the definition.
"""

if __name__ == "__main__":
    main(sys.argv[1:])
