"""The failures of an operator: which of them are one fault, and in which words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ..core.model import Result
from ..core.text import format_factor, pluralize
from .failure_groups import FailureGroup

MOST_ALSO = 4


def same_fault(a: FailureGroup, b: FailureGroup) -> bool:
    """Whether two backends fail with the same cause; without a cause nobody knows."""
    return bool(a.elected.name) and a.elected.name == b.elected.name


def different(groups: Sequence[FailureGroup]) -> list[FailureGroup]:
    """The groups without those whose cause an earlier one has."""
    return [
        group
        for position, group in enumerate(groups)
        if not any(same_fault(group, earlier) for earlier in groups[:position])
    ]


def also(others: Sequence[Result]) -> Iterator[str]:
    """``also: float32 forward on cpu, numpy: up to 13 × budget``, one line per dtype, direction and
    verdict."""
    by_kind: dict[tuple[str, str, str], list[Result]] = defaultdict(list)
    for result in others:
        by_kind[result.dtype, result.direction, result.verdict.value].append(result)
    for (dtype, direction, verdict), results in list(by_kind.items())[:MOST_ALSO]:
        backends = ", ".join(dict.fromkeys(r.backend for r in results))
        rho = max(r.metrics.get("rho_max", 0.0) for r in results)
        size = f" up to {format_factor(rho)} × budget" if verdict == "divergent" else ""
        yield f"also:    {dtype} · {direction} · {backends}   {verdict}{size}"
    if len(by_kind) > MOST_ALSO:
        more = len(by_kind) - MOST_ALSO
        yield f"         and {pluralize(more, 'more kind')}"
