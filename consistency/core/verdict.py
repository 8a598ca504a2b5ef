"""The vocabulary of judgments: verdicts of results, and how a call can end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class VerdictKind(StrEnum):
    """The verdict of one result: passes, warnings, failures, and not tested.

    History stores on disk hold a kind's position, so new ones are appended.
    """

    EXACT = "exact"
    ROUNDING = "rounding"
    KNOWN = "known"
    ILL_CONDITIONED = "ill-conditioned"
    CRASH = "crash"
    DIVERGENT = "divergent"
    ERROR = "error"
    NONDETERMINISTIC = "nondeterministic"
    PRECISION_SCALING = "precision-scaling"
    REDUCED_PRECISION = "reduced-precision"
    SPECIAL_VALUES = "special-values"
    STRUCTURE = "structure"
    TIMEOUT = "timeout"
    FALLBACK = "fallback"
    UNAVAILABLE = "unavailable"
    INCONCLUSIVE = "inconclusive"
    UNSUPPORTED = "unsupported"


class OutcomeStatus(StrEnum):
    """How a call ended, and for a comparison how the call and its reference ended together."""

    OK = "ok"
    RAISED = "raised"
    CRASH = "crash"
    TIMEOUT = "timeout"
    FALLBACK = "fallback"
    UNSUPPORTED = "unsupported"
    UNAVAILABLE = "unavailable"
    UNBUILT = "unbuilt"  # a worker could not build the case
    INCONCLUSIVE = "inconclusive"
    BOTH_RAISED = "both-raised"
    NO_REFERENCE = "no-reference"


VERDICTS = tuple(kind.value for kind in VerdictKind)
# Names of earlier versions, which bundles, corpora and expectation files still hold.
OLD_VERDICTS = MappingProxyType({"undecidable": "inconclusive", "expected": "known"})

# Names, not kinds: an enumeration's hash and ``value`` are computed in Python, for every result.
_PASSES = frozenset({VerdictKind.EXACT.value, VerdictKind.ROUNDING.value})
_WARNS = frozenset({VerdictKind.ILL_CONDITIONED.value, VerdictKind.KNOWN.value})
_NOT_TESTED = frozenset(
    {
        VerdictKind.FALLBACK.value,
        VerdictKind.INCONCLUSIVE.value,
        VerdictKind.UNAVAILABLE.value,
        VerdictKind.UNSUPPORTED.value,
    }
)
_FAILS = frozenset(VERDICTS) - _PASSES - _WARNS - _NOT_TESTED


def verdict_name(text: str) -> str:
    """The present name of a verdict of any version: ``undecidable`` is now ``inconclusive``.

    Text that names no verdict is returned unchanged.
    """
    return OLD_VERDICTS.get(text, text)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict by its kind, or the name of one. ``allowed`` marks a requested
    ``reduced-precision``, which only warns. Raises ValueError for an unknown name."""

    kind: VerdictKind
    allowed: bool = False

    def __init__(self, kind: VerdictKind | str, allowed: bool = False) -> None:
        name = verdict_name(kind)
        if name not in VERDICTS:
            raise ValueError(f"{name!r:.80} is no verdict; known: {', '.join(VERDICTS)}")
        object.__setattr__(self, "kind", VerdictKind(name))
        object.__setattr__(self, "allowed", allowed)

    @property
    def value(self) -> str:
        """The name in JSON and tables."""
        return self.kind._value_

    @property
    def passes(self) -> bool:
        return self.kind._value_ in _PASSES

    @property
    def warns(self) -> bool:
        return self.kind._value_ in _WARNS or (self.allowed and self.kind._value_ in _FAILS)

    @property
    def fails(self) -> bool:
        return not self.allowed and self.kind._value_ in _FAILS

    @property
    def diverges(self) -> bool:
        """A failure, or a known divergence that would be one."""
        return self.fails or self.kind is VerdictKind.KNOWN

    @property
    def tested(self) -> bool:
        """False for verdicts that are neither a pass nor a failure."""
        return self.kind._value_ not in _NOT_TESTED

    @property
    def group(self) -> str:
        """``passed``, ``warned``, ``failed`` or ``not tested``."""
        if self.passes:
            return "passed"
        if self.warns:
            return "warned"
        return "failed" if self.fails else "not tested"

    def __str__(self) -> str:
        return self.kind.value
