"""A year of nights on many machines, with planted changes: is each found, on its night, and is
anything found that is not there?

    python benchmarks/nightly_simulation.py                      12 environments × 365 nights ×
    5,000 cases; about 1.5 GB in a temporary folder python benchmarks/nightly_simulation.py
    --environments 3 --nights 30 --cases 200

Bundles are written in the real format (results packed with gzip). Planted are: new failures (of one
case of a group, or of all), errors that grow or shrink within the budget, fixes; most on the night
of a new driver, some on a night on which nothing else changed. Not to be told as changes: cases
that fail now and then, results that differ from night to night, drivers that change bits and
nothing else, one bad night of a machine, nights that are missing, half-written or damaged, bundles
that are there twice, and a corpus that grows.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from simulated.bundles import make
from simulated.scores import Score, mornings, score
from simulated.world import World


def spent() -> float:
    """CPU seconds of this process and its children."""
    return sum(
        u.ru_utime + u.ru_stime
        for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


class RepeatCheck:
    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), spent()

    def __call__(self, what: str) -> None:
        wall, cpu = time.perf_counter(), spent()
        print(f"{what:<58} {wall - self.wall:8.1f} s  {cpu - self.cpu:8.1f} s CPU", flush=True)
        self.wall, self.cpu = wall, cpu


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--environments", type=int, default=12)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--mornings",
        type=int,
        default=60,
        help="how many of no particular night are judged as they were",
    )
    parser.add_argument(
        "--folder", type=Path, help="where to write; kept. Default: a temporary folder"
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="list everything missed and everything told that is not there",
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        return simulate(options, options.folder or Path(scratch))


def simulate(options: argparse.Namespace, folder: Path) -> int:
    from consistency.report.history import bundle_sources, snapshot, store
    from consistency.report.history import sql as questions
    from consistency.report.history.site import write as write_site

    world = World(options.environments, options.nights, options.cases, options.seed)
    watch = RepeatCheck()
    planted, many = make(world, folder / "nights")
    used = sum(path.stat().st_size for path in (folder / "nights").rglob("*") if path.is_file())
    watch(f"writing {many:,} results in bundles ({used / 1e9:.2f} GB)")
    found, problems = bundle_sources.bundles([folder / "nights"])
    watch(f"finding {len(found):,} bundles")
    held = store.Store(folder / "store.duckdb")
    held.take(found)
    watch(f"reading them into the store ({(folder / 'store.duckdb').stat().st_size / 1e6:.0f} MB)")
    print(
        f"  {len(problems) + len(held.problems)} complaints, such as: "
        f"{(problems + held.problems)[0] if problems + held.problems else '–'}"
    )
    made = snapshot.snapshot(held)
    watch("finding changes, the snapshot")
    site = write_site(made, folder / "site")
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    watch(
        f"writing the site ({size / 1e6:.0f} MB, "
        f"{sum(1 for p in site.rglob('*') if p.is_file())} files)"
    )
    held.take(bundle_sources.bundles([folder / "nights"])[0])
    watch(f"next morning with nothing new ({held.fresh - len(found)} bundles read)")
    result = score(made, planted)
    for sql in (
        "SELECT night, count(*) FROM changes WHERE regression GROUP BY night ORDER BY night",
        "SELECT environment, count(*), avg(fails::INT) FROM results GROUP BY environment",
        ("SELECT operator, max(rho) FROM results WHERE fails GROUP BY operator ORDER BY 2 DESC "
        "LIMIT 20"),
    ):  # fmt: skip
        answer = list(questions.ask(held, sql).rows)
        watch(f"{len(answer)} rows: {sql[:44]}…")
        held.close()
        held = store.Store(folder / "store.duckdb")
    verdict = report(world, result, options.all)
    told = mornings(held, made, planted, options.mornings, options.seed)
    watch(f"judging {told['mornings']} single mornings again")
    print(
        f"on the morning itself: {told['told']:.0f} of {told['planted']:.0f} with a new driver, "
        f"{told['silent_told']:.0f} of {told['silent']:.0f} without one a night later; "
        f"{told['false']:.0f} false in {told['mornings']:.0f} mornings of one environment"
    )
    return verdict


def report(world: World, result: Score, everything: bool) -> int:
    months = world.nights / 30.4
    for kind, count in sorted(result.planted.items()):
        print(
            f"{kind:<9} {result.found.get(kind, 0):4d} of {count:4d} planted found on the right "
            "night"
        )
    regressions = [
        words for words in result.false if words.startswith(("new", "error_grew", "untested"))
    ]
    print(
        f"false alarms over {months:.1f} months: {len(regressions)}; "
        f"other changes told that are not there: {len(result.false) - len(regressions)}"
    )
    for line in [*map(str, result.missed), *result.false][: None if everything else 12]:
        print(" ", line)
    good = result.share("new", "error_grew") >= 0.95 and len(regressions) <= months
    print("holds" if good else "does not hold", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
