"""Measures after how many cases each publicly reported bug is noticed, and writes the table.

    python tools/real_bugs.py                      # all of tests/real_bugs: outcomes.json, the page
    python tools/real_bugs.py --only '*torch#19*'  # these again, the others as they were
    python tools/real_bugs.py --most 200           # more cases for what 50 do not show
    python tools/real_bugs.py --page               # docs/real-bugs.md alone, from outcomes.json

Each bug is played on the shipped cases and 2 fresh ones per operator × dtype (what the README's
first command runs), then on 50 fresh ones of its first operator, then on --most, until one fails.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
STEPS = (2, 50)


def measure(only: str, most: int) -> None:
    """Plays the bugs and writes ``outcomes.json``."""
    from tests.real_bugs import BUGS
    from tests.real_bugs.outcomes import read
    from tests.real_bugs.play import handed, look

    table = read()
    table.versions = {name: version(name) for name in ("torch", "hypothesis")}
    table.rows = {bug.issue: table.rows.get(bug.issue, {}) for bug in BUGS}
    for bug in BUGS:
        if not fnmatch.fnmatchcase(bug.issue, only):
            continue
        began = time.perf_counter()
        for examples in sorted({*(n for n in STEPS if n <= most), most}):
            seen = look(bug, examples, twin=examples == STEPS[0])
            if seen.noticed or seen.accused:
                break
        given = handed(bug)
        table.rows[bug.issue] = {
            "within": seen.examples if seen.noticed else None,
            "case": seen.noticed,
            "on": seen.first,
            "cause": seen.cause,
            "touched": seen.touched,
            "drawn": seen.drawn,
            "forgave": dict(seen.forgiven),
            "handed": given and bool(given.noticed),
        }
        table.write()
        print(
            f"{bug.issue:44s} {table.rows[bug.issue]['within'] or 'never'!s:6s} "
            f"touched {seen.touched} of {seen.drawn}  {time.perf_counter() - began:.1f} s",
            *(f"\n  accused: {text}" for text in seen.accused[:1]),
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="*", help="a pattern of issues (repository#number)")
    parser.add_argument("--most", type=int, default=STEPS[-1], help="the largest number of cases")
    parser.add_argument("--page", action="store_true", help="write the page from the table only")
    chosen = parser.parse_args()
    if not chosen.page:
        measure(chosen.only, chosen.most)
    from tests.real_bugs.page import FILE, page

    FILE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
