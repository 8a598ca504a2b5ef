"""The last line of a run, the one above it where time ended it, and the exit status."""

from __future__ import annotations

from pathlib import Path

from ...core.text import format_seconds, pluralize
from ...core.verdict import Verdict
from ...engine.config import RunConfig
from ...storage.bundle.naming import PAGE
from ..progress import ProgressMeter
from ..summary import RunSummary


def last_line(
    summary: RunSummary, seconds: float | None, *, out: Path | None, out_of_time: bool = False,
    not_tested: bool = False,
) -> str:  # fmt: skip
    """What a run found, how long it took (``seconds``: None where it did not end) and where its
    bundle ``out`` is; ``not_tested``: the reasons of what was not tested follow."""
    groups, verdicts = summary.groups, summary.verdicts
    parts: list[str] = []
    if groups["failed"]:
        failing = [(name, count) for name, count in verdicts.items() if Verdict(name).fails]
        parts += [f"{count:,} {name}" for name, count in sorted(failing, key=lambda kind: -kind[1])]
    good = verdicts["rounding"] + verdicts["exact"]
    if good or not groups["not tested"]:
        parts.append(f"{good:,} rounding or exact")
    unbegun = summary.unbegun_results
    counts = {name: verdicts[name] for name in ("known", "ill-conditioned")}
    # What the time did not suffice for says nothing of the inputs, other inconclusive results do.
    counts |= {"inconclusive": verdicts["inconclusive"] - unbegun, "not begun": unbegun}
    parts += [f"{count:,} {name}" for name, count in counts.items() if count]
    if untested := groups["not tested"] - verdicts["inconclusive"]:
        parts.append(f"{untested:,} not tested{'' if not_tested else ' (why: --not-tested)'}")
    if failed := summary.harness_failures:
        parts.append(f"{failed:,} of them failures of the harness itself: please report one")
    paths = f"    bundle {out}" if out else ""
    if out and (out / PAGE).is_file():
        paths += f"    page {out / PAGE}"
    ended = ", time budget used up" if out_of_time else ""
    took = "did not end" if seconds is None else format_seconds(seconds)
    return f"{_mark(summary)} {' · '.join(parts)}    {took}{ended}{paths}"


def _mark(summary: RunSummary) -> str:
    groups = summary.groups
    if groups["failed"]:
        return "✗"
    return "✓" if groups["passed"] or groups["warned"] else "– nothing was tested:"


def left_out(settings: RunConfig, meter: ProgressMeter, unbegun: int, seconds: float) -> str:
    """What a run without the time limit that ended this one after ``seconds`` would add: of
    ``unbegun`` operators × dtypes no case was judged."""
    done, total = meter.done, max(meter.total, 1)
    whole = format_seconds(seconds * total / max(done, 1))
    more = f", {pluralize(unbegun, 'operator × dtype', 'operators × dtypes')} not begun"
    return (
        f"the best {done:,} of {total:,} cases fitted into {settings.time_limit:g} s"
        f"{more if unbegun else ''}; all of them: --examples {settings.examples} "
        f"(some {whole})"
    )


def exit_status(summary: RunSummary, *, asked: bool) -> int:
    """0 consistent; 1 a failing verdict; 3 nothing failed, but nothing was tested, or not on a
    requested backend."""
    if summary.groups["failed"]:
        return 1
    tested = summary.groups["passed"] + summary.groups["warned"]
    return 3 if not tested or (asked and summary.lost) else 0
