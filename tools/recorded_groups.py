"""What torch-directml does instead, for every failing group of recordings, as a table.

    python tools/recorded_groups.py RECORDING ... [--write]

A group is operator × direction × verdict; each of its results is explained on its own: by its
message (tests/support/recorded_errors.py), by a proof from the recorded numbers, or by a row of
tests/support/recorded_causes.py. Those without an explanation are in the table, too. ``--write``
puts the table into docs/directml.md, between its marks. Needs no device.
"""

from __future__ import annotations

import fnmatch
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.recorded_causes import BY_NUMBERS, PROOFS, proved
from consistency.core.model import Result
from consistency.engine import judge_recordings
from tests.support.recorded_causes import ROWS, WORDS
from tests.support.recorded_errors import explained

PAGE = Path(__file__).resolve().parents[1] / "docs" / "directml.md"
BEGIN, END = "<!-- groups -->", "<!-- end of groups -->"
UNEXPLAINED = "**not explained**"
_PROVED = {
    ids: WORDS[name]
    for (_, ids), name in zip(
        PROOFS,
        ("saturated", "lost-write", "nan-dropped", "int64-truncated", "float32-integers", "zero"),
        strict=True,
    )
}
_SIGNS = {"forward": "", "backward": " ∇"}
Group = tuple[str, str, str]  # operator, direction, verdict


def failing(folder: str) -> Iterator[tuple[Result, frozenset[str]]]:
    """The failing results of a recording, and what is proved of their numbers."""
    planned = judge_recordings.plan([folder])
    (recording,) = planned.recordings
    rows = {row.id: row for row in recording.rows}
    for event in judge_recordings.events(planned):
        for result in getattr(event, "results", ()):
            if result.verdict.fails:
                by_numbers = result.verdict.value in BY_NUMBERS
                outputs = recording.outcome(rows[result.recorded_id]).outputs if by_numbers else ()
                yield result, proved(result, outputs) if by_numbers else frozenset()
    planned.close()


def explanation(result: Result, proofs: frozenset[str]) -> str:
    """What the kernel does instead; UNEXPLAINED where nobody knows."""
    if result.verdict.value not in BY_NUMBERS:
        return (
            explained(
                result.operator, result.direction, result.dtype, result.explanation, result.shapes
            )
            or UNEXPLAINED
        )
    for row in ROWS:
        if (
            fnmatch.fnmatchcase(result.operator, row.operators)
            and row.direction in ("", result.direction)
            and not proofs
        ):
            return f"{row.does}: {row.found}"
    return _PROVED.get(proofs, UNEXPLAINED)


def table(found: Mapping[str, Mapping[Group, int]]) -> list[str]:
    """A line for each explanation, those of most groups first. ∇ marks gradients."""
    lines = ["| what the kernel does instead | verdict | results | groups | in |",
             "|---|---|--:|--:|---|"]  # fmt: skip
    order = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    for words, groups in order:
        verdicts = "<br>".join(sorted({f"`{verdict}`" for _, _, verdict in groups}))
        names = dict.fromkeys(
            f"`{operator.removeprefix('nn.functional.')}`{_SIGNS[direction]}"
            for operator, direction, _ in sorted(groups)
        )
        lines.append(
            f"| {words.replace('|', '&#124;')} | {verdicts} | {sum(groups.values())} | "
            f"{len(groups)} | {' '.join(names)} |"
        )
    return lines


def written(page: str, lines: Sequence[str]) -> str:
    """The page with the table between its marks."""
    before, rest = page.split(BEGIN, 1)
    return f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{rest.split(END, 1)[1]}"


def main(arguments: Sequence[str]) -> None:
    warnings.simplefilter("ignore")
    found: dict[str, Counter[Group]] = defaultdict(Counter)
    for folder in (word for word in arguments if word != "--write"):
        for result, proofs in failing(folder):
            group = result.operator, result.direction, str(result.verdict.value)
            found[explanation(result, proofs)][group] += 1
    groups = {group for counted in found.values() for group in counted}
    results = sum(sum(counted.values()) for counted in found.values())
    left = len(found.get(UNEXPLAINED, ()))
    said = f"{results} failing results in {len(groups)} groups; {left} groups not explained"
    lines = table(found)
    print("\n".join(lines), said, sep="\n")
    if "--write" in arguments:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(written(page, [*lines, "", f"{said}."]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
