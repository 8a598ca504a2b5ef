"""Prove that a reorganization changed no result: judge one corpus before and after, and compare.

    python tools/same_results.py judge before.jsonl      # in the tree as it was
    python tools/same_results.py judge after.jsonl       # in the tree as it is
    python tools/same_results.py compare before.jsonl after.jsonl

The corpus is one case of every operator × dtype on cpu, cpu+onednn=off and numpy, and twelve cases
for each of some sixty rows of the tests' catalog of faulty and healthy backends. Kept of each
result are its verdict, × budget and other measurements, cause and work-around; sentences are kept
too, and compared with ``--words``. One thread computes, so that two runs of one tree agree.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

EVERY = 10  # of the catalog's rows one in so many
EXAMPLES = 12
RENAMED = {"undecidable": "inconclusive", "expected": "known"}  # verdicts before issue words


def judged(every: int) -> Iterator[tuple[str, Any]]:
    """Results with their part of the corpus; operators are taken one in ``every``."""
    from consistency import backends, operators
    from consistency.engine import engine
    from consistency.engine.events import Judged
    from tests.support.catalog import FAULTS, HEALTHY, groups
    from tests.support.catalog.play import play

    chosen = engine.configure(
        [o for name, o in operators.registry().items() if zlib.crc32(name.encode()) % every == 0],
        backends.resolve_all(["cpu", "cpu+onednn=off", "numpy"]),
        examples=1,
        shrink=False,
    )
    for event in engine.run(chosen):
        if isinstance(event, Judged):
            yield from (("all operators", result) for result in event.results)
    for rows in groups([*FAULTS[:: EVERY * every], *HEALTHY[:: EVERY * every]]).values():
        for row in play(rows, EXAMPLES).values():
            yield from (("catalog", result) for result in row.results)


def row(part: str, result: Any) -> dict[str, Any]:
    """What is kept of a result."""
    evidence = result.evidence
    cause = evidence.cause if evidence is not None else None
    return {
        "key": [part, result.case.digest, result.backend, result.direction],
        "operator": result.operator,
        "dtype": result.dtype,
        "verdict": str(result.verdict),
        "fails": result.verdict.fails,
        "metrics": {name: repr(value) for name, value in result.metrics.items()},
        "cause": [cause.name, repr(cause.share)] if cause is not None else None,
        "trials": {k: repr(v) for k, v in evidence.trials.items()} if evidence else {},
        "words": result.explanation,
    }


def compare(before: Path, after: Path, words: bool) -> int:
    """Print what differs; 0 where nothing does."""
    left, right = (_rows(path, words) for path in (before, after))
    print(
        f"{len(left):,} results before, {len(right):,} after, {len(left.keys() & right):,} in both"
    )
    differing = [key for key in left.keys() & right if left[key] != right[key]]
    kinds: collections.Counter[str] = collections.Counter()
    for key in differing:
        fields = [name for name in left[key] if left[key][name] != right[key].get(name)]
        kinds[f"{left[key]['operator']}: {', '.join(fields)}"] += 1
    for kind, many in kinds.most_common(20):
        print(f"{many:6,} × {kind}")
    for key in differing[:5]:
        fields = [name for name in left[key] if left[key][name] != right[key].get(name)]
        print(key, {name: (left[key][name], right[key].get(name)) for name in fields})
    # A smaller corpus takes every n-th operator: others, where the order of the registry changed.
    alone = left.keys() ^ right.keys()
    if alone:
        names = {(left.get(key) or right[key])["operator"] for key in alone}
        print(f"judged in one of them only: {', '.join(sorted(names))}")
    print(f"{len(differing):,} differ, {len(alone):,} are in one of them only")
    return int(bool(differing or alone))


def _rows(path: Path, words: bool) -> dict[tuple[str, ...], dict[str, Any]]:
    found = {}
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            read = json.loads(line)
            read["verdict"] = RENAMED.get(read["verdict"], read["verdict"])
            if not words:
                read.pop("words")
            found[tuple(read.pop("key"))] = read
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    judge = commands.add_parser("judge")
    judge.add_argument("out", type=Path)
    judge.add_argument(
        "--every", type=int, default=1, help="a smaller corpus: one operator in so many, by name"
    )
    both = commands.add_parser("compare")
    both.add_argument("before", type=Path)
    both.add_argument("after", type=Path)
    both.add_argument("--words", action="store_true", help="sentences, too")
    options = parser.parse_args()
    if options.command == "compare":
        return compare(options.before, options.after, options.words)
    torch.set_num_threads(1)
    with options.out.open("w", encoding="utf-8") as stream:
        for part, result in judged(options.every):
            stream.write(json.dumps(row(part, result)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
