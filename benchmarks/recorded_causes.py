"""How often the cause named for a group of a recording's failing results is the true one.

    python benchmarks/recorded_causes.py RECORDING… [--all]

A group is operator × direction × verdict of results that fail by their numbers. Its true cause is
proved from the recorded numbers alone where one of ``PROOFS`` holds for all of them, or stands in
tests/support/recorded_causes.py; the others have no known cause and are counted apart. The cause
named is the one elected, as in a
headline; where none is, because few elements are wrong, the one that its results have. Right /
wrong / silent are of the groups with a known cause.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from consistency.core.model import Result
from consistency.diagnose.cause_vote import CauseVotes
from consistency.engine import judge_recordings
from consistency.generate.calls.case_operator import operator_of
from consistency.generate.materialize import Arguments, prepare
from consistency.reference import Reference
from tests.support.recorded_causes import ROWS

BY_NUMBERS = ("divergent", "special-values", "reduced-precision")
Proof = Callable[[torch.Tensor, torch.Tensor, Arguments, str], bool]
Group = tuple[str, str, str]  # operator, direction, verdict


def wrong_ones(got: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    near = torch.isclose(got.double(), right.double(), rtol=1e-2, atol=0.0, equal_nan=True)
    return ~near.reshape(-1)


def _lost(got: torch.Tensor, right: torch.Tensor, before: Arguments, name: str) -> bool:
    """Every wrong element is what was there before, in an argument that is written to."""
    kind, _, number = name.partition("/")
    if kind == "grad" or not before.tensors:
        return False
    old = before.bases[int(number)] if kind == "arg" else before.tensors[0]
    wrong = wrong_ones(got, right)
    if old.numel() != got.numel():
        return False
    same = torch.isclose(got.double().reshape(-1), old.double().reshape(-1), 0.0, 0.0, True)
    return bool(wrong.any()) and bool(same[wrong].all())


def _zeros(got: torch.Tensor, right: torch.Tensor, before: Arguments, name: str) -> bool:
    """Every wrong element of a gradient, or every element of a result, is zero."""
    wrong = wrong_ones(got, right)
    zero = (got == 0).reshape(-1)
    return bool(wrong.any()) and bool((zero[wrong] if name.startswith("grad") else zero).all())


def _low_bits(got: torch.Tensor, right: torch.Tensor, before: Arguments, name: str) -> bool:
    if got.dtype != torch.int64 or right.dtype != torch.int64:
        return False
    difference = got.reshape(-1) - right.to(torch.int64).reshape(-1)
    return bool((difference != 0).any()) and bool((difference % (1 << 32) == 0).all())


def _float32(got: torch.Tensor, right: torch.Tensor, before: Arguments, name: str) -> bool:
    if got.dtype != torch.int64 or right.dtype != torch.int64:
        return False
    wrong = got.reshape(-1) != right.to(torch.int64).reshape(-1)
    held = got.reshape(-1)[wrong]
    rightful = right.reshape(-1)[wrong]
    most = torch.iinfo(torch.int64).max  # 2⁶³ of float32 has no integer of 64 bits
    return (
        bool(wrong.any())
        and bool(((held.to(torch.float32).to(torch.int64) == held) | (held == most)).all())
        and bool((rightful.to(torch.float32).to(torch.int64) != rightful).any())
    )


def _no_nan(got: torch.Tensor, right: torch.Tensor, before: Arguments, name: str) -> bool:
    if not got.dtype.is_floating_point:
        return False
    wrong = wrong_ones(got, right)
    return bool(wrong.any()) and bool((right.isnan() & ~got.isnan()).reshape(-1)[wrong].all())


def _at_the_ends(got: torch.Tensor, right: torch.Tensor, before: Arguments, name: str) -> bool:
    if got.dtype.is_floating_point or got.dtype == torch.bool:
        return False
    wrong = (got != right.to(got.dtype)).reshape(-1)
    ends = torch.iinfo(got.dtype)
    held = got.reshape(-1)[wrong]
    return bool(wrong.any()) and bool(((held == ends.min) | (held == ends.max)).all())


# What holds of the recorded numbers, and the ids that then are right, the strictest first.
PROOFS: tuple[tuple[Proof, frozenset[str]], ...] = (
    (_at_the_ends, frozenset({"saturated", "float32-integers"})),
    (_lost, frozenset({"lost-write"})),
    (_no_nan, frozenset({"nan-dropped"})),
    (_low_bits, frozenset({"int64-truncated"})),
    (_float32, frozenset({"float32-integers", "int64-truncated", "saturated"})),
    (_zeros, frozenset({"zero", "argument-ignored"})),
)


def table(group: Group) -> frozenset[str]:
    """The ids of the table's rows that fit."""
    return frozenset().union(
        *(
            row.right
            for row in ROWS
            if fnmatch.fnmatchcase(group[0], row.operators) and row.direction in ("", group[1])
        )
    )


class Groups:
    """The failing groups of recordings: their votes, and what is proved of each result."""

    def __init__(self) -> None:
        self.votes: dict[Group, CauseVotes] = defaultdict(CauseVotes)
        self.causes: dict[Group, Counter[str]] = defaultdict(Counter)
        self.proved: dict[Group, list[frozenset[str]]] = defaultdict(list)

    def add(self, folder: str) -> None:
        planned = judge_recordings.plan([folder])
        recording = planned.recordings[0]
        rows = {row.id: row for row in recording.rows}
        for event in judge_recordings.events(planned):
            for result in getattr(event, "results", ()):
                if result.verdict.fails and result.verdict.value in BY_NUMBERS:
                    outcome = recording.outcome(rows[result.recorded_id])
                    group = result.operator, result.direction, str(result.verdict.value)
                    self.votes[group].add(result)
                    self.causes[group][result.cause] += bool(result.cause)
                    self.proved[group].append(proved(result, outcome.outputs))
        planned.close()

    def named(self, group: Group) -> tuple[str, bool]:
        """The cause elected, as in a headline, and True; where too few elements are wrong for an
        election, the one that most of its results have."""
        elected = self.votes[group].elect()[0].name
        if elected:
            return elected, True
        (cause, count), *_ = self.causes[group].most_common(1) or [("", 0)]
        return (cause if count else ""), False

    def right(self, group: Group) -> frozenset[str]:
        """The ids that are right; empty where a result's cause is not known. A group may have
        several: integers and floats of one operator fail by different ones."""
        found = [proofs or table(group) for proofs in self.proved[group]]
        return frozenset().union(*found, table(group)) if all(found) else frozenset()


def proved(result: Result, outputs: Sequence[object]) -> frozenset[str]:
    """The ids of the first proof that holds for the failing output."""
    materials = prepare(result.case)
    operator = operator_of(result.case)
    reference = Reference(operator, materials, result.direction)
    returned = {o.name: o.tensor for o in outputs}  # type: ignore[attr-defined]
    right = {o.name: o.tensor for o in reference.outputs}
    got, wanted = returned.get(result.output), right.get(result.output)
    if got is None or wanted is None or got.shape != wanted.shape:
        return frozenset()
    before = materials.build()
    proofs = (row for row in PROOFS if row[0] is not _lost or operator.mutates)
    return next((ids for proof, ids in proofs if proof(got, wanted, before, result.output)),
                frozenset())  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recordings", nargs="+", metavar="RECORDING")
    parser.add_argument("--all", action="store_true", help="print every group, not only mistakes")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    total: Counter[str] = Counter()
    for folder in options.recordings:
        groups, counts = Groups(), Counter[str]()
        groups.add(folder)
        for group in groups.votes:
            (named, elected), right = groups.named(group), groups.right(group)
            said = (
                "unknown" if not right
                else "silent" if not named
                else "right" if named in right else "WRONG"
            )  # fmt: skip
            counts[said] += 1
            counts["headlines"] += said == "right" and elected
            if options.all or said in ("WRONG", "silent"):
                print(f"{said:<8}{named or '–':<26}{' '.join(group)}  [{'|'.join(sorted(right))}]")
        print(folder, line(counts))
        total += counts
    if len(options.recordings) > 1:
        print("all", line(total))
    return 0


def line(counts: Counter[str]) -> str:
    known = counts["right"] + counts["WRONG"] + counts["silent"]
    shares = ", ".join(
        f"{name.lower()} {counts[name]} ({counts[name] / max(known, 1):.1%})"
        for name in ("right", "WRONG", "silent")
    )
    return (
        f"{known} groups with a known cause: {shares}; {counts['headlines']} of the right ones in "
        f"a headline; {counts['unknown']} groups without"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
