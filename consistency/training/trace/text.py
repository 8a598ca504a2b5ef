"""The summary of a trace in words."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import torch

from ...report.failure import message
from ...report.rerun_hint import rerun_hint

if TYPE_CHECKING:
    from .session import WatchSession

_NUMBER = re.compile(r"\b\d[\d,.]*\b")
REASONS = 12  # shown; further ones are added up


def session_text(watch: WatchSession) -> str:
    """Number of calls, how many were judged, the first difference, and everything that was left
    out."""
    lines = [_headline(watch)]
    lines += [f"  {line}" for line in _verdicts(watch)]
    lines += [f"– {name}: cannot run here: {reason}" for name, reason in watch.absent.items()]
    first = watch.first
    if first is not None:
        lines += [
            f"the first that diverges: {watch.call_of(first)}",
            f"✗ {message(first, again=False)}",
        ]
        lines += rerun_hint(
            first, "w.first", spec=watch.specs.get(first.backend), folder=watch.saved.get(first.key)
        )
        others = Counter(f"{r.operator} on {r.backend}" for r in watch.failures)
        if len(watch.failures) > 1:
            lines.append(
                f"all that differ: "
                f"{', '.join(f'{count} × {what}' for what, count in others.most_common(8))}"
            )
    lines += [f"not judged: {line}" for line in _left_out(watch)]
    return "\n".join(lines)


def _headline(watch: WatchSession) -> str:
    operators = len({call.operator for call in watch.calls})
    judged = len({result.case.digest for result in watch.results})
    captured = sum(call.case is not None for call in watch.calls)
    distinct = f"{judged:,} distinct cases" if judged else f"{captured:,} captured, none judged"
    names = ", ".join(dict.fromkeys(result.backend for result in watch.results))
    differ = len({result.case.digest for result in watch.failures})
    on = f" on {names}" if names else ""
    return (
        f"{watch.count:,} calls of {operators} operators, {distinct}{on}, {differ:,} differ"
        if judged
        else (f"{watch.count:,} calls of {operators} operators, {distinct}")
    )


def _verdicts(watch: WatchSession) -> list[str]:
    """The number of results per verdict, and the most common reasons for inconclusive ones."""
    counts = Counter(result.verdict.value for result in watch.results)
    lines = (
        [" · ".join(f"{count:,} {verdict}" for verdict, count in counts.most_common())]
        if counts
        else []
    )
    inconclusive_reasons: Counter[str] = Counter()
    for result in watch.results:
        if not result.verdict.tested:
            inconclusive_reasons[
                f"{result.verdict} {result.operator}: {_NUMBER.sub('N', result.explanation)}"
            ] += 1
    return lines + _most_common(inconclusive_reasons)


def _left_out(watch: WatchSession) -> list[str]:
    return _most_common(Counter(watch.left_out))


def _most_common(counts: Counter[str]) -> list[str]:
    shown = [f"{count:,} × {text[:200]}" for text, count in counts.most_common(REASONS)]
    rest = sum(counts.values()) - sum(count for _, count in counts.most_common(REASONS))
    return shown + ([f"{rest:,} × for other reasons"] if rest else [])


def environment(device: str) -> dict[str, str]:
    """Device and versions of the program's own computation."""
    versions = {"device": device, "torch": torch.__version__}
    if device.startswith("cuda") and torch.cuda.is_available():
        versions["device"] = torch.cuda.get_device_name(torch.device(device))
        versions["cuda"] = str(torch.version.cuda)
    return versions
