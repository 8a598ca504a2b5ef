"""The command line of the fuzzer."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import importlib
import json
import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from .campaign import Attempt, Campaign
from .defects import DEFECTS, planted
from .process import Ended

# Imported before the first fork, so that no fork needs to.
COMMON = (
    "consistency.cli.main", "consistency.report.page", "consistency.report.replay",
    "consistency.report.markdown", "consistency.report.history.diff",
    "consistency.report.history.store", "consistency.report.history.snapshot",
    "consistency.report.history.sql", "consistency.report.repro_script",
    "consistency.storage.corpus", "consistency.storage.recording", "consistency.storage.lookup",
    "consistency.engine.engine", "consistency.engine.judge_recordings",
    "consistency.probes.explain", "consistency.probes.sweep", "consistency.diagnose.shrink",
    "rich.console", "rich.progress", "jinja2", "duckdb", "yaml", "hypothesis", "safetensors.torch",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.fuzzing", description=__doc__)
    parser.add_argument("--mutations", type=int, default=1000, help="so many")
    parser.add_argument("--first", type=int, default=0, help="number of the first mutation")
    parser.add_argument("--only", type=int, nargs="*", help="these numbers")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--seed", type=int, default=0, help="other mutations")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--command", default="", help="commands that match this expression only")
    parser.add_argument("--folder", type=Path, help="where inputs and mutations lie")
    parser.add_argument("--keep", action="store_true", help="leave the files of each mutation")
    parser.add_argument("--json", type=Path, help="write every attempt, one object a line")
    parser.add_argument("--healthy", action="store_true", help="each command, nothing mutated")
    parser.add_argument("--planted", action="store_true", help="each planted defect: is it found?")
    given = parser.parse_args(arguments)
    if not hasattr(os, "fork"):
        print("this system has no fork: the fuzzer needs one", file=sys.stderr)
        return 3
    torch.set_num_threads(1)
    for name in COMMON:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(prefix="fuzzing-") as temporary:
        campaign = Campaign(given.folder or Path(temporary), given.seed, given.keep)
        campaign.targets = tuple(t for t in campaign.targets if re.search(given.command, t.line))
        if given.planted:
            return _planted(campaign)
        attempts = _all(campaign, given)
    chosen = f" --seed {given.seed}" if given.seed else ""
    chosen += f" --command {shlex.quote(given.command)}" if given.command else ""
    return _told(attempts, chosen)


def _all(campaign: Campaign, given: argparse.Namespace) -> list[Attempt]:
    campaign.prepare()
    if given.healthy:
        return [campaign.healthy(target) for target in campaign.targets]
    numbers = given.only or range(given.first, given.first + given.mutations)
    jobs = [list(numbers)[job :: given.jobs] for job in range(given.jobs)]
    until = time.monotonic() + (given.seconds or 1e9)
    files = [campaign.folder / f"attempts-{job}.jsonl" for job in range(given.jobs)]
    children = []
    for job, file in zip(jobs, files, strict=True):
        pid = os.fork()
        if pid == 0:
            try:
                _work(campaign, job, file, until)
            except BaseException as error:
                print(f"the fuzzer itself: {error!r}", file=sys.stderr)
                os._exit(70)
            os._exit(0)
        children.append(pid)
    ended = [os.waitpid(pid, 0)[1] for pid in children]
    if any(ended):
        raise SystemExit("the fuzzer itself failed")
    rows = [json.loads(row) for file in files for row in file.read_text("utf-8").splitlines()]
    if given.json:
        given.json.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return [_attempt(row) for row in sorted(rows, key=lambda row: row["number"])]


NOTHING = Ended(None, "", "", 0.0, 0.0, 0, "", "", (), 0)


def _work(campaign: Campaign, numbers: Sequence[int], file: Path, until: float) -> None:
    with file.open("w", encoding="utf-8") as stream:
        for number in numbers:
            if time.monotonic() > until:
                break
            try:
                attempt = campaign.attempt(number)
            except Exception as error:  # a mistake of the fuzzer must not hide the other mutations
                attempt = Attempt(number, "(the fuzzer)", "", NOTHING, (("fuzzer", repr(error)),))
            row = dataclasses.asdict(attempt)
            stream.write(f"{json.dumps(row)}\n")
            stream.flush()


def _planted(campaign: Campaign) -> int:
    """Print what is said about each planted defect, in the first command."""
    campaign.prepare()
    campaign.seconds = 3.0
    missed = 0
    for name, kind in {"none": "", **{name: kind for name, (_, kind) in DEFECTS.items()}}.items():
        with planted(name):
            found = {kind for kind, _ in campaign.healthy(campaign.targets[0]).complaints}
        missed += kind not in found if kind else bool(found)
        print(f"{name}: {', '.join(sorted(found)) or 'nothing'}")
    return int(missed > 0)


def _attempt(row: dict[str, Any]) -> Attempt:
    ended = Ended(**row.pop("ended") | {"written": ()})
    found = tuple((kind, words) for kind, words in row.pop("complaints"))
    return Attempt(**row, ended=ended, complaints=found)


def _told(attempts: Sequence[Attempt], chosen: str) -> int:
    """Print the complaints by cause, each with how to repeat the first of them."""
    causes: dict[tuple[str, str], list[tuple[Attempt, str]]] = collections.defaultdict(list)
    for attempt in attempts:
        for kind, words in attempt.complaints:
            causes[kind, _cause(words, attempt)].append((attempt, words))
    for (kind, _), found in sorted(causes.items(), key=lambda pair: -len(pair[1])):
        first, words = min(found, key=lambda pair: len(pair[0].mutation))
        print(f"{len(found)} × {kind}: {words}")
        print(f"    {first.command[:300]}")
        print(f"    {first.mutation[:300]}")
        print(f"    python -m tests.support.fuzzing{chosen} --only {first.number}")
    statuses = collections.Counter(attempt.ended.status for attempt in attempts)
    shares = ", ".join(f"{count} × {status}" for status, count in statuses.most_common())
    longest = max((attempt.ended.seconds for attempt in attempts), default=0.0)
    largest = max((attempt.ended.memory for attempt in attempts), default=0)
    complaints = sum(len(attempt.complaints) > 0 for attempt in attempts)
    print(
        f"{len(attempts)} mutations, {complaints} with complaints of {len(causes)} kinds; exit "
        f"status {shares}; longest {longest:.1f} s, largest {largest >> 20} MB"
    )
    return 1 if causes else 0


def _cause(words: str, attempt: Attempt) -> str:
    """Complaints with the same cause are listed once."""
    command = attempt.command.split()[0]
    at = words.rpartition(" at consistency/")
    if at[1]:
        return words.partition(":")[0] + at[2]
    return f"{command} {re.sub(r'[0-9a-f-]*[0-9][0-9a-f]*', '#', words)[:60]}"


if __name__ == "__main__":
    sys.exit(main())
