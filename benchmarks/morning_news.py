"""Is a permanent regression told as new on the first or second morning and never as flaky, and a
flaky case never as new?

    python benchmarks/morning_news.py                     600 histories of 30 nights, 6 machines
    python benchmarks/morning_news.py --histories 2000 --seed 1 --all

Every morning is judged with what was known then: the bundles up to that night are read, and the
matrix is made. What the histories are is told in simulated/histories.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from simulated.histories import Told, figures, histories, mornings, write


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--histories", type=int, default=600)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--machines", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="list every history told wrongly")
    options = parser.parse_args(arguments)
    made = histories(options.histories, options.nights, options.machines, options.seed)
    with tempfile.TemporaryDirectory() as scratch:
        write(made, Path(scratch))
        told = mornings(made, Path(scratch))
    for kind, counts in figures(told).items():
        print(f"{kind:<15}", ", ".join(f"{count} {name}" for name, count in counts.items()))
    wrong = [one for one in told if is_wrong(one)]
    for one in wrong[: None if options.all else 12]:
        print(
            f"  {one.history.kind}, {one.history.words}, begins {one.history.begins}: "
            f"new {one.new}, not certain {one.uncertain}, flaky {one.flaky[:6]}"
        )
    good = holds(told)
    print("holds" if good else "does not hold")
    return 0 if good else 1


def is_wrong(one: Told) -> bool:
    """Whether a history was told as what it is not."""
    if one.history.begins is not None:
        return not one.in_time or bool(one.flaky)
    return bool(one.new) or (bool(one.flaky) and not one.history.kind.startswith("flaky"))


def holds(told: list[Told]) -> bool:
    """Permanent failures: 98% in time, none flaky. Flaky ones: at most 2% new. Others: nothing."""
    counts = figures(told)
    permanent, flaky = counts["permanent"], counts["flaky"]
    others = [one for one in told if one.history.kind in ("driver", "drift")]
    return (
        permanent["told in time"] >= 0.98 * permanent["histories"]
        and permanent["called flaky"] == 0
        and flaky["called new"] <= 0.02 * flaky["histories"]
        and not any(one.flaky for one in others)
        and not any(one.new for one in others if one.history.begins is None)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
