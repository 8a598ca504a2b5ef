"""Rates of known divergences, counted in bundles: of the results that an entry covers, how many
fail as it says.

    python tools/expectation_rates.py openvino BUNDLE ... [--write]

The first argument is what the entries' ``backend`` begins with. Prints a line per entry; with
``--write`` the ``rate:`` of each entry in tolerances.yaml becomes the share that so many failures
prove with 95% certainty (the exact lower bound of Clopper and Pearson), at most 0.99. Entries that
cover less than three results keep theirs. Use runs of drawn cases (``--no-shipped``): shipped ones
are chosen to fail.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable
from math import exp, lgamma, log, log1p
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from consistency.core.model import Result
from consistency.judge import tolerances
from consistency.judge.known.entries import Expectation
from consistency.storage import bundle

FILE = Path(__file__).parents[1] / "tolerances.yaml"
_CERTAINTY = 0.95
_FEWEST = 3


def main(arguments: list[str]) -> None:
    write = "--write" in arguments
    prefix, *folders = [word for word in arguments if word != "--write"]
    results = [
        result
        for folder in folders
        for result in bundle.read_results(Path(folder))
        if result.backend.startswith(prefix) and result.verdict.tested
    ]
    entries = [e for e in tolerances.load().expectations if e.backend.startswith(prefix)]
    rates: dict[int, float] = {}
    for place, group in itertools.groupby(entries, lambda entry: entry.place):
        named = list(group)  # one for each operator that the entry in the file names
        counted = [counts(entry, results) for entry in named]
        failing, covered = (sum(numbers) for numbers in zip(*counted, strict=True))
        bound = min(lower_bound(failing, covered), 0.99)
        if covered >= _FEWEST and failing:
            rates[int(place.rpartition(":")[2])] = round(bound, 2) or 0.01
        entry = named[0]
        condition = entry.when.text if entry.when else ""
        more = f" +{len(named) - 1}" if len(named) > 1 else ""
        print(
            f"{entry.operator + more:44} {failing:4}/{covered:<4} {bound:.2f}  {entry.rate}  "
            f"{condition}"
        )
    if write:
        FILE.write_text(rewritten(FILE.read_text(encoding="utf-8"), rates), encoding="utf-8")


def counts(entry: Expectation, results: Iterable[Result]) -> tuple[int, int]:
    """How many results fail with a verdict of the entry, and how many it covers."""
    covered = [
        result
        for result in results
        if entry.speaks_of(
            operator=result.operator, dtype=result.dtype, direction=result.direction,
            backend=result.backend, device="cpu",
        )
        and entry.describes(result.case)
    ]  # fmt: skip
    seen = [r.known.verdict if r.known else r.verdict.value for r in covered]
    return sum(verdict in entry.verdicts for verdict in seen), len(covered)


def lower_bound(failing: int, covered: int) -> float:
    """The smallest rate at which so many failures or more have a probability of 5%."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        less = sum(_probability(k, covered, middle) for k in range(failing))
        at_least = 1 - less
        low, high = (middle, high) if at_least < 1 - _CERTAINTY else (low, middle)
    return low if failing else 0.0


def _probability(k: int, count: int, rate: float) -> float:
    """Of ``k`` failures among ``count`` results. By logarithms: the binomial coefficients of some
    thousand results leave float64."""
    ways = lgamma(count + 1) - lgamma(k + 1) - lgamma(count - k + 1)
    return exp(ways + k * log(rate) + (count - k) * log1p(-rate))


def rewritten(text: str, rates: dict[int, float]) -> str:
    """The file with other rates in the entries that begin at these lines (numbered from 1)."""
    lines = text.split("\n")
    for number, rate in rates.items():
        place = number - 1
        while not lines[place].lstrip().startswith("rate:"):
            place += 1
            if re.match(r"\s*- ", lines[place]):
                raise SystemExit(f"{FILE.name}:{number}: the entry has no rate")
        lines[place] = re.sub(r"rate: \S+", f"rate: {rate:g}", lines[place])
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
