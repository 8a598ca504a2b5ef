"""How often the headline of a quick run names the true cause of a planted fault, and how often a
wrong one.

    python benchmarks/headlined_causes.py [--only GLOB] [--seed N] [--every-dtype]

Each fault of tests/support/headlined_faults.py is a backend of its own in a quick run of its
operator: the dtypes that the fault was defined for (with ``--every-dtype`` all of them, where it
may do something else), both directions, failures made smaller. The headline is what the terminal
prints first for the operator.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from consistency import operators
from consistency.engine import engine
from consistency.engine.events import Judged, Minimized
from consistency.engine.run_options import PROFILES, TIME_LIMIT
from consistency.report.summary import RunSummary
from tests.support.headlined_faults import HeadlinedFault, headlined_faults

LEAST_RIGHT, MOST_WRONG = 0.9, 0.02


@dataclass(frozen=True)
class Headline:
    """What a quick run said of a fault: the id in its headline (empty: none), whether anything
    failed, seconds of CPU time."""

    fault: HeadlinedFault
    cause: str
    noticed: bool
    seconds: float

    @property
    def is_right(self) -> bool:
        return self.cause in self.fault.right

    @property
    def is_wrong(self) -> bool:
        return bool(self.cause) and not self.is_right


def headline_of(fault: HeadlinedFault, seed: int = 0, *, every_dtype: bool = False) -> Headline:
    """A quick run of the fault's operator."""
    config = engine.configure(
        [operators.get(fault.operator)], [fault.make()],
        None if every_dtype else (fault.dtypes or None), examples=PROFILES["quick"], seed=seed,
        long=True, shipped=True, time_limit=TIME_LIMIT["quick"],
    )  # fmt: skip
    summary, began = RunSummary(), time.process_time()
    for event in engine.run(config):
        if isinstance(event, Judged):
            for result in event.results:
                summary.add(result)
        elif isinstance(event, Minimized):
            summary.shrunk(event.result)
    failing = summary.by_operator()
    cause = failing[0][0].elected.name if failing else ""
    return Headline(fault, cause, bool(failing), time.process_time() - began)


def shares(headlines: Sequence[Headline]) -> tuple[float, float]:
    """The shares of headlines that name a right and a wrong cause; the rest names none."""
    total = max(len(headlines), 1)
    return (
        sum(one.is_right for one in headlines) / total,
        sum(one.is_wrong for one in headlines) / total,
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="*", help="names of faults, a glob")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every-dtype", action="store_true", help="all dtypes of the operator")
    options = parser.parse_args(arguments)
    headlines = []
    for fault in headlined_faults():
        if not fnmatch.fnmatch(fault.name, options.only):
            continue
        one = headline_of(fault, options.seed, every_dtype=options.every_dtype)
        headlines.append(one)
        said = "right" if one.is_right else "WRONG" if one.is_wrong else "none"
        said = said if one.noticed else "not noticed"
        print(
            f"{said:<12}{one.cause or '–':<28}{fault.name}  "
            f"[{'|'.join(sorted(fault.right))}]  {one.seconds:.1f} s",
            flush=True,
        )
    right, wrong = shares(headlines)
    print(f"{len(headlines)} faults: right {right:.1%}, wrong {wrong:.1%}")
    return 0 if right >= LEAST_RIGHT and wrong <= MOST_WRONG else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
