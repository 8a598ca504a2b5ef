"""Bisection of a failure: the first version that behaves differently, or the switches that make it
vanish.

This module chooses configurations and draws the conclusion; the caller runs and shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..backends._specs import Apart, Spec, apart, parse
from ..core.model import Result
from ..errors import UsageError


@dataclass(frozen=True)
class Trial:
    """One configuration and its result; ``result`` is None if it could not be tested, for
    ``reason``."""

    name: str
    result: Result | None = None
    reason: str = ""

    @property
    def state(self) -> str:
        """``fails`` (including known failures), ``passes`` or ``not tested``."""
        if self.result is None or not self.result.verdict.tested:
            return "not tested"
        return "fails" if self.result.verdict.diverges else "passes"


@dataclass(frozen=True)
class BisectionResult:
    """All tries in order, and the conclusion. ``found``: whether a difference was found."""

    tries: tuple[Trial, ...]
    words: str
    found: bool


Judge = Callable[[str], Trial]


def bisect_versions(names: Sequence[str], judge: Judge, what: str = "torch") -> BisectionResult:
    """The two neighbors in the ordered ``names`` between which the state changes; untestable ones
    are skipped.

    Both ends are tried first; if they agree, the search ends.
    """
    tried: dict[int, Trial] = {}

    def state(position: int) -> str:
        if position not in tried:
            tried[position] = judge(names[position])
        return tried[position].state

    positions = list(range(len(names)))
    low = next((p for p in positions if state(p) != "not tested"), None)
    high = next((p for p in reversed(positions) if state(p) != "not tested"), None)
    if low is None or high is None or low == high:
        only = "" if low is None else f"; {what} {names[low]} alone was tested: it {state(low)}"
        return BisectionResult(
            tuple(tried.values()),
            f"nothing can be compared: fewer than two could be tested{only}",
            False,
        )
    if state(low) == state(high):
        how = "fails" if state(low) == "fails" else "passes"
        return BisectionResult(
            tuple(tried.values()), f"it {how} on {what} {names[low]} and {names[high]} alike", False
        )
    while True:
        between = [
            p for p in range(low + 1, high) if not (p in tried and tried[p].state == "not tested")
        ]
        if not between:
            break
        middle = between[len(between) // 2]
        if state(middle) == "not tested":
            continue
        if state(middle) == state(low):
            low = middle
        else:
            high = middle
    untested = [names[p] for p in range(low + 1, high)]
    verb = "fails" if state(high) == "fails" else "passes"
    gap = f" (between them, not tested: {', '.join(untested)})" if untested else ""
    was = "passes" if verb == "fails" else "fails"
    return BisectionResult(
        tuple(tried.values()), f"{what} {names[low]} {was}, {what} {names[high]} {verb}{gap}", True
    )


@dataclass(frozen=True)
class BisectionSetup:
    """A spec in parts that can be put together otherwise: the backend, its switches, the
    interpreter, its variables."""

    kind: str
    place: str
    switches: tuple[tuple[str, str], ...]
    python: str
    variables: tuple[tuple[str, str], ...]

    @staticmethod
    def of(text: str) -> BisectionSetup:
        """Parse a spec. Raises UsageError."""
        parts = apart(text) or Apart(text)
        spec = parse(parts.spec)
        return BisectionSetup(
            spec.kind,
            spec.place,
            tuple(spec.switches.items()),
            parts.python,
            tuple(parts.environment.items()),
        )

    @property
    def spec(self) -> str:
        name = Spec("", self.kind, self.place, dict(self.switches)).name
        return (
            name
            + (f"@{self.python}" if self.python else "")
            + "".join(f"+env:{key}={value}" for key, value in self.variables)
        )

    def differences(self, other: BisectionSetup) -> list[SetupDifference]:
        """The changes that turn this setup into ``other``."""
        differences = []
        if self.python != other.python:
            differences.append(SetupDifference("python", "", other.python))
        for part in ("switches", "variables"):
            own_parts, other_parts = dict(getattr(self, part)), dict(getattr(other, part))
            keys = [*own_parts, *(key for key in other_parts if key not in own_parts)]
            differences += [
                SetupDifference(part, key, other_parts.get(key))
                for key in keys
                if own_parts.get(key) != other_parts.get(key)
            ]
        return differences

    def changed(self, differences: Sequence[SetupDifference]) -> BisectionSetup:
        """This setup with ``differences`` applied."""
        switches, variables, python = dict(self.switches), dict(self.variables), self.python
        for difference in differences:
            table = switches if difference.part == "switches" else variables
            if difference.part == "python":
                python = difference.value or ""
            elif difference.value is None:
                table.pop(difference.key, None)
            else:
                table[difference.key] = difference.value
        return BisectionSetup(
            self.kind, self.place, tuple(switches.items()), python, tuple(variables.items())
        )


@dataclass(frozen=True)
class SetupDifference:
    """One piece of a spec: ``value`` is the new value, None if it is removed."""

    part: str
    key: str
    value: str | None

    def __str__(self) -> str:
        if self.part == "python":
            return f"@{self.value}" if self.value else "the interpreter of this command"
        sign = "+env:" if self.part == "variables" else "+"
        if self.value is None:
            return f"without {sign}{self.key}"
        return f"{sign}{self.key}={self.value}" if self.value else f"{sign}{self.key}"


def bisect_switches(failing: str, passing: str, judge: Judge) -> BisectionResult:
    """The fewest differences between two specs that make the failing one pass.

    Differences are removed one after the other, so that each remaining one is necessary.
    """
    failing_setup, passing_setup = BisectionSetup.of(failing), BisectionSetup.of(passing)
    tries = [judge(failing), judge(passing)]
    if [t.state for t in tries] == ["passes", "fails"]:
        failing_setup, passing_setup, failing, passing = (
            passing_setup,
            failing_setup,
            passing,
            failing,
        )
        tries.reverse()
    if [t.state for t in tries] != ["fails", "passes"]:
        words = " and ".join(f"{t.state} on {t.name}" for t in tries)
        return BisectionResult(tuple(tries), f"there is nothing to bisect: it {words}", False)
    if (failing_setup.kind, failing_setup.place) != (passing_setup.kind, passing_setup.place):
        words = (
            f"it fails on {failing} and passes on {passing}: two devices, between which "
            f"there are no switches to try"
        )
        return BisectionResult(tuple(tries), words, True)
    needed = failing_setup.differences(passing_setup)
    for piece in list(needed):
        fewer = [other for other in needed if other != piece]
        if not fewer:
            break
        attempt = judge(failing_setup.changed(fewer).spec)
        tries.append(attempt)
        if attempt.state == "passes":
            needed = fewer
    words = " and ".join(map(str, needed))
    return BisectionResult(
        tuple(tries),
        f"on {failing}, {words} {'makes' if len(needed) == 1 else 'together make'} it vanish",
        True,
    )


# Tried one at a time on the failing backend if no passing backend is named.
KNOWN = {
    "cpu": (
        "+onednn=off", "+threads=1", "+env:ATEN_CPU_CAPABILITY=default",
        "+env:ATEN_CPU_CAPABILITY=avx2",
        "+env:ONEDNN_MAX_CPU_ISA=AVX2", "+env:MKL_CBWR=COMPATIBLE",
    ),
    "cuda": ("+deterministic", "+benchmark", "+tf32", "+env:NVIDIA_TF32_OVERRIDE=0",
    "+env:CUBLAS_WORKSPACE_CONFIG=:4096:8"),
    "directml": ("+tiled=off",),
}  # fmt: skip


def try_known_switches(failing: str, judge: Judge) -> BisectionResult:
    """Try each known switch of the backend alone, and report which make the failure vanish.
    Raises UsageError."""
    failing_setup = BisectionSetup.of(failing)
    if failing_setup.kind not in KNOWN:
        raise UsageError(
            f"no switches are known of {failing!r}; name two backends: --over {failing} --over "
            f"OTHER"
        )
    first = judge(failing)
    if first.state != "fails":
        return BisectionResult(
            (first,), f"there is nothing to bisect: it {first.state} on {failing}", False
        )
    pieces = [
        piece
        for text in KNOWN[failing_setup.kind]
        for piece in BisectionSetup.of(failing_setup.kind).differences(
            BisectionSetup.of(failing_setup.kind + text)
        )
    ]
    new_pieces = [
        p for p in pieces if not (p.part == "switches" and p.key in dict(failing_setup.switches))
    ]
    tries = [(piece, judge(failing_setup.changed([piece]).spec)) for piece in new_pieces]
    effective = [str(piece) for piece, attempt in tries if attempt.state == "passes"]
    words = (
        f"on {failing}, {' or '.join(effective)} makes it vanish"
        if effective
        else f"none of the known switches of {failing_setup.kind} cures it"
    )
    return BisectionResult((first, *(attempt for _, attempt in tries)), words, bool(effective))
