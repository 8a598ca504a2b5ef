"""docs/budgets.md: how large budgets are beside the results that they admit, operator by operator.

    python tools/budget_audit.py measure STORE.jsonl [--cases 6] [--share I/N] [--only PATTERN…]
    python tools/budget_audit.py write STORE.jsonl… -o docs/budgets.md

A budget that exceeds the result admits everything. Nothing here reads a tolerance: the CPU's
result is given an error in one element, and the judge says how many budgets that error is. The
error is max|ref|, the largest finite element of the reference, toward the other sign, so that it
never leaves the format; budget ÷ max|ref| is then 1 ÷ (× budget). ``measure`` appends a line per
operator, dtype and direction, and goes on where an earlier run stopped.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from consistency import backends, operators
from consistency.core.model import Case, Outcome
from consistency.diagnose import evaluation
from consistency.diagnose.backend_rules import judgment
from consistency.errors import ConsistencyError
from consistency.generate.materialize import prepare
from consistency.generate.search import batch
from consistency.judge.compare import compare
from consistency.judge.tolerances import Tolerances, load
from consistency.operators.declare import Operator
from consistency.reference import Reference, quiet
from consistency.reference.proofs import spots

ROOT = Path(__file__).parents[1]
ELEMENTS = 3  # of every output of a case
# budget ÷ max|ref| beyond which an entry is listed; half precision has 2⁻¹¹ or 2⁻⁸ for one rounding
LIMITS = {"float32": 2.0**-8, "float16": 0.5, "bfloat16": 0.5}
CPU = backends.resolve("cpu")


def budgets(operator: Operator, case: Case, direction: str, rules: Tolerances) -> Iterator[float]:
    """budget ÷ max|ref| of some elements of each floating-point output."""
    reference = Reference(operator, prepare(case), direction)
    outcome = CPU.run(operator, reference.materials, direction)
    if not outcome.ok or not reference.outcome.ok:
        return
    for index, output in enumerate(outcome.outputs):
        wanted = reference.outcome.outputs[index].tensor if index < len(reference.outputs) else None
        if output.tensor is None or wanted is None or wanted.shape != output.tensor.shape:
            continue
        if output.dtype not in LIMITS or not wanted.numel():
            continue
        numbers = wanted.detach().to(torch.float64).reshape(-1).numpy()
        largest = float(torch.finfo(output.tensor.dtype).max)
        finite = np.flatnonzero(np.abs(numbers) <= largest)
        scale = float(np.abs(numbers[finite]).max(initial=0.0))
        if scale == 0.0:
            continue
        for place in spots(case.digest, index, finite.size, ELEMENTS):
            position = int(finite[place])
            error = -scale if numbers[position] > 0.0 else scale
            yield ratio(outcome, index, position, numbers[position] + error, reference, rules)


def ratio(
    outcome: Outcome, index: int, position: int, value: float, reference: Reference,
    rules: Tolerances,
) -> float:  # fmt: skip
    """1 ÷ (× budget) of the outcome with ``value`` at one position of output ``index``."""
    output = outcome.outputs[index]
    assert output.tensor is not None
    changed = output.tensor.detach().clone(memory_format=torch.contiguous_format)
    changed.view(-1)[position] = value
    outputs = list(outcome.outputs)
    outputs[index] = replace(output, tensor=changed)
    baseline = compare(outcome, reference)
    judged = judgment(
        reference.operator, CPU, reference.direction, baseline, reference, rules,
        compare(replace(outcome, outputs=tuple(outputs)), reference),
    )  # fmt: skip
    if judged.verdict.fails and not judged.metrics.get("rho_max"):
        return 0.0  # noticed without a budget: as a special value, or by its structure
    return 1.0 / max(judged.metrics.get("rho_max", 0.0), 1e-300)


def measured(operator: Operator, dtype: str, direction: str, count: int) -> dict[str, Any]:
    rules = load(ROOT / "tolerances.yaml")
    largest: list[tuple[float, str]] = []
    reason = ""
    for case in batch(operator, dtype, count):
        with quiet():
            try:
                found = list(budgets(operator, case, direction, rules))
            except (ConsistencyError, RuntimeError, LookupError, ValueError, TypeError) as error:
                reason = f"{type(error).__name__}: {str(error)[:120]}"
                continue
        if found:
            largest.append((max(found), case.line))
    row: dict[str, Any] = {"operator": operator.name, "family": operator.family, "dtype": dtype,
    "direction": direction, "cases": len(largest), "reason": reason}  # fmt: skip
    if largest:
        worst = max(largest)
        row |= {"median": statistics.median(r for r, _ in largest), "largest": worst[0]}
        row["case"] = worst[1]
    return row


def chosen(patterns: list[str]) -> Iterator[tuple[Operator, str, str]]:
    for operator in operators.registry().values():
        if operator.callable is None or operator.form_of is not None:
            continue
        if operator.error.kind in ("exact", "structure"):
            continue
        if patterns and not any(fnmatch.fnmatchcase(operator.name, p) for p in patterns):
            continue
        for dtype in LIMITS:
            if dtype in operator.dtypes:
                yield operator, dtype, "forward"
                if evaluation.differentiates(operator, dtype):
                    yield operator, dtype, "backward"


def measure(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    store = Path(options.store)
    known = {(row["operator"], row["dtype"], row["direction"]) for row in read([store])}
    part, parts = map(int, options.share.split("/"))
    for number, (operator, dtype, direction) in enumerate(chosen(options.only)):
        if number % parts == part and (operator.name, dtype, direction) not in known:
            row = measured(operator, dtype, direction, options.cases)
            with store.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def read(stores: list[Path]) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for store in stores
        if store.exists()
        for line in store.read_text(encoding="utf-8").splitlines()
    ]


PAGE = """# Budgets beside results

Written by `tools/budget_audit.py`: is there an operator whose budget admits any result? In each
of up to {cases} cases, one element of the CPU's result is changed by max|ref|, the largest
element of the output, and the judge is asked how many budgets that is; budget ÷ max|ref| is the
reciprocal. Of a case the largest of {elements} elements per output counts.

An entry is listed if its *median* case exceeds 2⁻⁸ in float32 or ½ in half precision. A single
case may exceed it in any operator that sums or subtracts: where terms cancel, the result is small
beside what was added, and the budget is proportional to the terms.

| dtype | direction | entries | median of medians | median case exceeds | some case exceeds |
|---|---|---|---|---|---|
{totals}

## Entries whose median case exceeds the limit

{entries}
"""
REASONS: dict[tuple[str, str], str] = {}


def page(rows: list[dict[str, Any]]) -> str:
    rows = [row for row in rows if row["cases"]]
    totals = []
    for dtype, limit in LIMITS.items():
        for direction in ("forward", "backward"):
            of = [r for r in rows if (r["dtype"], r["direction"]) == (dtype, direction)]
            if of:
                middle = statistics.median(r["median"] for r in of)
                often = sum(r["median"] > limit for r in of)
                once = sum(r["largest"] > limit for r in of)
                totals.append(
                    f"| {dtype} | {direction} | {len(of):,} | {middle:.1e} | {often} | {once} |"
                )
    listed = [
        f"| `{r['operator']}` | {r['dtype']} | {r['direction']} | {shown(r['median'])} | "
        f"{shown(r['largest'])} | {REASONS.get((r['operator'], r['direction']), '')} |"
        for r in sorted(rows, key=lambda r: (r["operator"], r["dtype"], r["direction"]))
        if r["median"] > LIMITS[r["dtype"]]
    ]
    head = "| operator | dtype | direction | median | largest | why |\n|---|---|---|---|---|---|\n"
    return PAGE.format(
        cases=max((r["cases"] for r in rows), default=0),
        elements=ELEMENTS,
        totals="\n".join(totals),
        entries=head + "\n".join(listed) if listed else "None.",
    )


def shown(ratio: float) -> str:
    """Beyond 10⁶ any result is admitted, such as NaN's place in the reference."""
    return f"{ratio:.2g}" if ratio < 1e6 else "any"


def write(options: argparse.Namespace) -> None:
    Path(options.output).write_text(page(read(list(map(Path, options.stores)))), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("measure")
    one.add_argument("store")
    one.add_argument("--cases", type=int, default=6)
    one.add_argument("--share", default="0/1")
    one.add_argument("--only", nargs="*", default=[])
    one.set_defaults(run=measure)
    two = commands.add_parser("write")
    two.add_argument("stores", nargs="+")
    two.add_argument("-o", "--output", required=True)
    two.set_defaults(run=write)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
