"""Tables of a run on two versions of torch, for docs/cross-version.md: python
tools/cross_version.py BUNDLE BACKEND

Prints Markdown: per family what was compared and how far within the budget it is, and every
operator that fails on BACKEND with its verdict, where it does, and an example. What is written by
hand in the page (why) is not touched: paste the tables above it.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from consistency.core.model import Result
from consistency.storage.bundle import read_results

BASELINE = "cpu"


def families(results: Iterable[Result], other: str) -> Iterator[str]:
    """A row per family: operators, results that could be judged on both, worst × budget that passed
    on each, operators failing."""
    rows: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        rows[result.family].append(result)
    yield (
        f"| family | operators | judged on {other} | worst × budget, {BASELINE} | on {other} | "
        f"fail there | not tested there |"
    )
    yield "|---|---|---|---|---|---|---|"
    for family, found in rows.items():
        there = [r for r in found if r.backend == other]
        failing = sorted({r.operator for r in there if r.verdict.fails})
        untested = {r.operator for r in there} - {
            r.operator for r in there if r.verdict.tested or r.verdict.value == "inconclusive"
        }
        judged = sum(r.verdict.tested for r in there)
        here, elsewhere = (
            _worst(r for r in found if r.backend == backend) for backend in (BASELINE, other)
        )
        names = len({r.operator for r in found})
        yield (
            f"| {family} | {names} | {judged:,} | {here:.2f} | {elsewhere:.2f} | "
            f"{len(failing)} | {len(untested)} |"
        )


def _worst(results: Iterable[Result]) -> float:
    """The largest × budget that passed."""
    return max((r.metrics.get("rho_max", 0.0) for r in results if r.verdict.passes), default=0.0)


def failures(results: Iterable[Result], other: str) -> Iterator[str]:
    """A row per operator and verdict."""
    grouped: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        if result.backend == other and result.verdict.fails:
            grouped[result.operator, result.verdict.value].append(result)
    yield "| operator | verdict | where | cases | what |"
    yield "|---|---|---|---|---|"
    for (operator, verdict), found in grouped.items():
        where = Counter(f"{r.dtype} {r.direction}" for r in found)
        worst = max(found, key=lambda r: r.metrics.get("rho_max", 0.0))
        text = worst.explanation.split("; ")[0].replace("|", "\\|")[:150]
        yield f"| `{operator}` | {verdict} | {', '.join(where)} | {len(found)} | {text} |"


def untested(results: Iterable[Result], other: str) -> Iterator[str]:
    """Operators that the other version lacks, by reason."""
    reasons: dict[str, set[str]] = defaultdict(set)
    for result in results:
        if result.backend == other and result.verdict.value in (
            "unsupported",
            "unavailable",
            "fallback",
        ):
            reasons[result.explanation.replace(result.operator, "it")].add(result.operator)
    for reason, names in sorted(reasons.items(), key=lambda pair: -len(pair[1])):
        shown = ", ".join(f"`{name}`" for name in sorted(names)[:12])
        yield f"- {len(names)}: {reason[:160]} ({shown}{', …' if len(names) > 12 else ''})"


def main() -> None:
    folder, other = Path(sys.argv[1]), sys.argv[2]
    results = read_results(folder)
    for part in (families, failures, untested):
        print("\n".join(part(results, other)), end="\n\n")


if __name__ == "__main__":
    main()
