"""How many faults judges of numbers notice, and how many healthy backends they accuse, on the same
cases.

    python benchmarks/verdicts.py [--examples N] [--seeds 0,1] [--only GLOB] [--json FILE]
    [--markdown FILE] python benchmarks/verdicts.py --table [--repeats N]

Plays the catalog of faulty and healthy backends (tests/support/catalog). A backend counts as
detected, or falsely accused, when at least one of its results is flagged. *Inconclusive* are rows
that the catalog itself calls so, *not drawn* decidable faults that changed no bit of any drawn
case, so that no rule could see them; neither counts as missed. ``cause`` is how often the cause
that ours names most often for a row is the planted one. Every rule flags what differs in structure
(number, shape, dtype of results, None), raises where the CPU does not, or differs in numbers that
are no floats; only ours sees inputs that were modified.

The rules:
- ``assert_close (CPU)``, ``assert_close (float64)``: torch.testing.assert_close with its defaults,
  NaN equal, against the CPU in the same dtype, and against float64 rounded to that dtype.
- ``op_db``: the same against the CPU with the loosest toleranceOverride that torch's own operator
  database has for operator and dtype; the defaults where it has none.
- ``dynamo same``: torch._dynamo.utils.same against the CPU with fp64_ref, tol=1e-4, NaN equal.
- ``msprobe L0``, ``L2``: the dual-benchmark rule: largest and mean relative error and RMSE, each
  divided by that of the CPU in the same dtype, all against float64; limits 10, 2, 2 (L0, also
  msprobe's own error limits) and 2, 1.2, 1.2 (L2, the strictest level of the Ascend operator
  standard). Elements up to 1e-6 (float32, float64; half precision 1e-3) count apart: the number of
  those that are off by more than 1e-9 (1e-5) may be twice the CPU's. NaN and infinities must lie
  where float64 has them. 0/0 is 1; an error where the CPU has none is 10,000, as msprobe has it, so
  that an exact CPU is a trap.
- ``WebNN``: the ULP table of the WebNN conformance tests, against float64 rounded; operators that
  are not in it are not judged.
- ``gamma``: |actual − float64| ≤ γ_n·S + u·|float64|, γ_n = n·u/(1 − n·u), with this project's n
  and S; u in γ is that of float32 for half precision, too.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from verdict_rules import RULES, Evidence, overrides

from consistency import operators
from consistency.backends.cpu import Cpu
from consistency.core.model import Outcome
from consistency.generate.materialize import Materials
from consistency.reference import Reference, quiet
from tests.support.catalog import FAULTS, HEALTHY, Fault, Row, groups
from tests.support.catalog.play import Played, play


@dataclass
class Scored:
    """One row: which rules flagged it, what ours said, and how many results it really changed."""

    row: Row
    flagged: set[str] = field(default_factory=set)
    touched: int = 0
    results: int = 0
    said: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    cases: list[tuple[str, str]] = field(default_factory=list)

    def add(self, played: Played) -> None:
        self.touched += played.touched
        self.results += len(played.results)
        self.said.update(result.verdict.value for result in played.results)
        if played.failing:
            self.flagged.add("ours")
        for result in played.failing:
            self.causes[getattr(result, "cause", "") or ""] += 1
            self.cases.append(
                (f"{result.direction} {result.verdict} {result.explanation}", result.case.line)
            )

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.row.name, "kind": self.kind, "flagged": sorted(self.flagged),
            "touched": self.touched,
            "results": self.results, "verdicts": dict(self.said), "cause": self.cause,
            "causes": dict(self.causes),
            "planted": getattr(self.row, "cause", None), "cases": self.cases[:5],
        }  # fmt: skip

    @property
    def cause(self) -> str:
        """The cause that ours names most often, empty where it names none in any case."""
        named = Counter({name: count for name, count in self.causes.items() if name})
        return named.most_common(1)[0][0] if named else ""

    @property
    def kind(self) -> str:
        if not isinstance(self.row, Fault):
            return "healthy"
        if not self.row.decidable:
            return "inconclusive"
        return "decidable" if self.touched else "not drawn"


def judged(rows: Iterable[Row], examples: int, seeds: Sequence[int], others: bool) -> list[Scored]:
    """Every row after all seeds, by ours and (with ``others``) by the other rules on the same
    outcomes."""
    scored = {row.name: Scored(row) for row in rows}
    rules = {
        name: rule
        for name, rule in RULES.items()
        if others and (name != "op_db" or overrides() is not None)
    }
    for members in groups(score.row for score in scored.values()).values():
        for seed in seeds:
            watch = _Others(rules, scored) if rules else None
            for found in play(members, examples, seed, watch).values():
                scored[found.row.name].add(found)
    return list(scored.values())


class _Others:
    """Asks the other rules about every outcome, each until it has flagged the row; keeps the
    references of the cases."""

    def __init__(
        self, rules: dict[str, Callable[[Evidence], bool]], scored: dict[str, Scored]
    ) -> None:
        self.rules, self.scored = rules, scored
        self.known: dict[tuple[str, str], tuple[Outcome, Reference]] = {}

    def __call__(self, row: Row, materials: Materials, direction: str, outcome: Outcome) -> None:
        flagged = self.scored[row.name].flagged
        wanted = [rule for rule in self.rules if rule not in flagged]
        if not wanted:
            return
        key = (materials.case.digest, direction)
        if key not in self.known:
            operator = operators.get(row.operator)
            with quiet():
                self.known[key] = (
                    Cpu().run(operator, materials, direction),
                    Reference(operator, materials, direction),
                )
        evidence = Evidence(outcome, *self.known[key])
        flagged |= {rule for rule in wanted if _flags(self.rules[rule], evidence)}


def _flags(rule: Callable[[Evidence], bool], evidence: Evidence) -> bool:
    if evidence.actual.status == evidence.cpu.status == "raised":
        return False
    with quiet():
        return evidence.differs or rule(evidence)


def table(scored: list[Scored]) -> list[dict[str, Any]]:
    """One line a rule."""
    names = ["ours", *(rule for rule in RULES if rule != "op_db" or overrides() is not None)]
    kinds = defaultdict(list)
    for score in scored:
        kinds[score.kind].append(score)
    lines = []
    for name in names:
        hit = {
            kind: sum(name in score.flagged for score in members) for kind, members in kinds.items()
        }
        line: dict[str, Any] = {
            "rule": name,
            "detected": hit.get("decidable", 0),
            "missed": len(kinds["decidable"]) - hit.get("decidable", 0),
            "inconclusive flagged": f"{hit.get('inconclusive', 0)}/{len(kinds['inconclusive'])}",
            "not drawn": len(kinds["not drawn"]),
            "false alarms": f"{hit.get('healthy', 0)}/{len(kinds['healthy'])}", "cause": "–",
        }  # fmt: skip
        if name == "ours":
            nameable = [
                s
                for s in kinds["decidable"]
                if "ours" in s.flagged and getattr(s.row, "cause", None)
            ]
            line["cause"] = f"{sum(s.cause in s.row.causes for s in nameable)}/{len(nameable)}"
        lines.append(line)
    return lines


def markdown(lines: list[dict[str, Any]]) -> str:
    heads = list(lines[0])
    text = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(
        text + ["| " + " | ".join(str(line[head]) for head in heads) + " |" for line in lines]
    )


def details(scored: list[Scored]) -> str:
    """Every decidable fault that ours misses, every fault that was not drawn, every false alarm
    with its first case."""
    text = []
    for score in scored:
        name, said = (
            score.row.name,
            ", ".join(f"{count} {verdict}" for verdict, count in score.said.most_common()),
        )
        seen = ", ".join(sorted(score.flagged - {"ours"})) or "nobody"
        if score.kind == "decidable" and "ours" not in score.flagged:
            text.append(
                f"missed: {name} ({score.touched} of {score.results} results changed; {said}; "
                f"flagged by {seen})"
            )
        elif score.kind == "not drawn":
            text.append(f"not drawn: {name}")
        elif score.kind == "inconclusive" and "ours" in score.flagged:
            text.append(f"called inconclusive, flagged: {name}: {score.cases[0][0]}")
        elif score.kind == "healthy" and "ours" in score.flagged:
            text.append(
                f"false alarm: {name} ({len(score.cases)} of {score.results}): "
                f"{score.cases[0][0]}\n    {score.cases[0][1]}"
            )
    return "\n".join(sorted(text))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--examples", type=int, default=20, help="cases per operator, dtype and seed (default 20)"
    )
    parser.add_argument("--seeds", default="0", help="comma-separated")
    parser.add_argument("--only", default="*", help="a glob: only rows of these operators")
    parser.add_argument(
        "--ours", action="store_true", help="leave the other rules out, which take most of the time"
    )
    parser.add_argument(
        "--table",
        action="store_true",
        help="instead: an emulated float32 matmul, share of results flagged per rule",
    )
    parser.add_argument(
        "--repeats", type=int, default=10, help="for --table: matrices per size and kind of data"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    started = time.monotonic()
    if options.table:
        from matmul_rules import shares

        lines = shares(options.repeats)
        rows: list[dict[str, Any]] = []
        print(markdown(lines))
    else:
        chosen = [
            row for row in (*FAULTS, *HEALTHY) if fnmatch.fnmatchcase(row.operator, options.only)
        ]
        scored = judged(
            chosen,
            options.examples,
            [int(seed) for seed in options.seeds.split(",")],
            not options.ours,
        )
        lines = table(scored)[: 1 if options.ours else None]
        rows = [score.to_json() for score in scored]
        print(f"{markdown(lines)}\n\n{details(scored)}")
    print(f"\n{time.monotonic() - started:.0f} s")
    if options.json:
        options.json.write_text(
            json.dumps({"table": lines, "rows": rows}, indent=1) + "\n", encoding="utf-8"
        )
    if options.markdown:
        options.markdown.write_text(markdown(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
