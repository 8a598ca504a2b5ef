"""What is wrong about how a command ended."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from .process import SYSTEM, Ended
from .snapshot import Snapshot, differences

STATUSES = (0, 1, 2, 3)
MOST_LINES = 12  # of an error
MOST_CHARACTERS = 5000
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\)|^\S*Warning: |Fatal Python error", re.M
)
_LAST = re.compile(r"^(\w[\w.]*(?:Error|Exception|Interrupt|Warning)\b.{0,120})", re.M)
_FRAME = re.compile(r'File "[^"]*?(consistency/[^"]*)", line (\d+), in (\w+)')


def complaints(
    ended: Ended,
    before: Snapshot,
    after: Snapshot,
    folder: Path,
    may_change: str,
    refused: int | None,
) -> Iterator[tuple[str, str]]:
    """(kind, words) of everything that is wrong. ``may_change``: a pattern of paths below
    ``folder``; ``refused``: the only exit status that is right, or None."""
    if ended.why == "time":
        yield "time", f"ended after {ended.seconds:.0f} s ({ended.cpu:.1f} s of the processor)"
    if ended.why == "memory":
        yield "memory", f"took {ended.memory >> 20} MB"
    if ended.signal and not ended.why:
        yield "signal", ended.signal
    text = ended.output + ended.errors
    found = _TRACEBACK.search(text)
    if found:
        yield "traceback", _cause(text)
    elif ended.status is not None and ended.status not in STATUSES:
        yield "status", f"exit status {ended.status}"
    if refused is not None and ended.status is not None and ended.status != refused and not found:
        yield "status", f"exit status {ended.status} where {refused} is right"
    if ended.status == 2 and not found:
        yield from _long(ended.errors)
    control = _CONTROL.search(text)
    if control:
        around = text[max(0, control.start() - 60) : control.start() + 20]
        yield "control characters", f"{around!r}"
    changed = [
        f"{what} {path}"
        for path, what in differences(before, after)
        if not path.startswith("out/") and not re.fullmatch(may_change or "(?!)", path)
    ]
    if changed:
        yield "files", ", ".join(changed[:4]) + (" …" if len(changed) > 4 else "")
    for path in outside(ended.written, folder):
        yield "files", f"written to, outside: {path}"
    if ended.left:
        yield "processes", "a process outlives the command"


def _long(errors: str) -> Iterator[tuple[str, str]]:
    lines = errors.splitlines()
    if len(lines) > MOST_LINES:
        yield "length", f"{len(lines)} lines of error"
    if len(errors) > MOST_CHARACTERS:
        yield "length", f"{len(errors)} characters of error: {errors[:100]!r}"
    if not errors.strip():
        yield "length", "exit status 2 without a word"


def outside(written: Sequence[str], folder: Path) -> Iterator[str]:
    """Paths that are not below the folder of this mutation."""
    top = f"{folder.resolve()}/"
    for path in written:
        if not path.startswith(top) and not path.startswith(SYSTEM) and path != "//":
            yield path


def _cause(text: str) -> str:
    """The exception's last line, and the last place of ours in its traceback."""
    found, places = _LAST.findall(text), _FRAME.findall(text)
    words = re.sub(r"\s+", " ", found[-1]) if found else text.strip().splitlines()[-1][:120]
    return words + (f" at {places[-1][0]}:{places[-1][1]} {places[-1][2]}" if places else "")
