"""Known divergences as values: what an entry covers and explains."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase

from torch import __version__ as torch_version

from ...core.case_source import ATEN, parse_source
from ...core.model import Case
from ...errors import UsageError
from ...generate.calls import aten
from ..file_vocabulary import in_range, is_backend
from ..named_entries import NamedEntries
from .case_facts import facts_of
from .predicate import Predicate

INSTRUCTIONS = "mkl instructions"  # its key in environments
RUNTIME = "runtime"  # the key of what computes in place of torch's kernels
IMPROBABLE = 1e-3  # probability that an expected failure is absent by chance
# Assumed share of failing results if an entry gives none: without and with `when`, and flaky.
RATE_ALONE, RATE_DESCRIBED, RATE_FLAKY = 0.03, 0.5, 0.01
LEAST = 3  # results needed to declare a divergence gone


@dataclass(frozen=True, slots=True)
class Expectation:
    """A known divergence with its ticket; ``since`` and ``expires`` are the first and the last day
    it is valid.

    ``when`` restricts the cases, ``torch`` and ``driver`` the versions, ``reference_torch`` that of
    the torch which computes the reference (this process's), ``instructions`` the instruction set of
    MKL. ``as_cpu``: only where the result is that of torch's CPU in the same dtype. ``max_rho``
    (× budget) is an upper limit: larger errors are another
    failure. ``rate`` is the share of covered results that fail (None: not given); ``flaky``: the
    same case fails only sometimes. ``place`` is ``tolerances.yaml:41``.
    """

    operator: str
    dtype: str = "*"
    direction: str = "*"
    backend: str = "*"
    verdicts: tuple[str, ...] = ()
    max_rho: float | None = None
    as_cpu: bool = False
    reason: str = ""
    ticket: str = ""
    since: date | None = None
    expires: date | None = None
    place: str = ""
    device: str = "*"
    driver: str = ""
    torch: str = ""
    reference_torch: str = ""
    instructions: str = "*"
    when: Predicate | None = None
    rate: float | None = None
    flaky: bool = False

    @property
    def id(self) -> str:
        """Ten digits that do not change when the entry moves in its file, is renewed, or gets
        another reason."""
        when = self.when.text if self.when is not None else ""
        identity = [
            self.operator,
            self.dtype,
            self.direction,
            self.backend,
            self.device,
            self.driver,
            self.torch,
            when,
        ]
        identity += [] if self.instructions == "*" else [self.instructions]
        identity += [f"reference {self.reference_torch}"] if self.reference_torch else []
        identity += ["as the CPU"] if self.as_cpu else []
        return hashlib.sha256(json.dumps([*identity, sorted(self.verdicts)]).encode()).hexdigest()[
            :10
        ]

    @property
    def likely(self) -> float:
        """The share of covered results that should fail, given or assumed."""
        if self.rate is not None:
            return self.rate
        return RATE_FLAKY if self.flaky else RATE_ALONE if self.when is None else RATE_DESCRIBED

    @property
    def enough(self) -> int:
        """How many results must pass before the divergence is improbable (p < 1e-3)."""
        return (
            LEAST
            if self.likely >= 1.0
            else max(LEAST, math.ceil(math.log(IMPROBABLE) / math.log1p(-self.likely)))
        )

    def speaks_of(
        self, *, operator: str, dtype: str, direction: str, backend: str, device: str = "",
        driver: str = "", torch: str = "",
        instructions: str = "",
    ) -> bool:  # fmt: skip
        """Whether results of this kind are covered; ``when`` restricts the cases."""
        return (
            fnmatchcase(operator, self.operator)
            and fnmatchcase(dtype, self.dtype)
            and self.direction in ("*", direction)
            and is_backend(backend, self.backend)
            and fnmatchcase(device, self.device)
            and fnmatchcase(instructions, self.instructions)
            and in_range(driver, self.driver)
            and in_range(torch, self.torch)
            and in_range(torch_version, self.reference_torch)
        )

    def describes(self, case: Case | None) -> bool:
        """Whether ``when`` is true of a case; if the case is unknown, only entries without
        ``when`` match."""
        return self.when is None or (case is not None and self.when.holds(facts_of(case)))

    def admits(self, rho: float | None) -> bool:
        """With ``max_rho``, an error that is larger or unknown is another failure."""
        return self.max_rho is None or (rho is not None and rho <= self.max_rho)

    def holds_on(self, today: date) -> bool:
        return (self.since or today) <= today <= (self.expires or today)

    def matches(
        self, *, operator: str, dtype: str, direction: str, backend: str, verdict: str,
        rho: float | None = None,
        today: date | None = None, device: str = "", driver: str = "", torch: str = "",
        instructions: str = "",
        case: Case | None = None,
    ) -> bool:  # fmt: skip
        """Whether a failing result is covered by this entry."""
        conditions = {
            "dtype": dtype,
            "direction": direction,
            "backend": backend,
            "device": device,
            "driver": driver,
            "torch": torch,
        }
        conditions |= {"instructions": instructions}
        return (
            verdict in self.verdicts
            and self.speaks_of(operator=operator, **conditions)
            and self.admits(rho)
            and self.holds_on(today or date.today())
            and self.describes(case)
        )

    def __str__(self) -> str:
        """``matmul float32 on cuda when K > 256``."""
        words = [self.operator, *(part for part in (self.dtype, self.direction) if part != "*")]
        words += [] if self.backend == "*" else ["on", self.backend]
        return " ".join(words) + (f" when {self.when}" if self.when is not None else "")


@dataclass(frozen=True)
class Occasion:
    """A case on a backend in a direction, to be matched with entries. ``identity`` describes the
    device and versions; ``as_cpu``: whether the result is that of torch's CPU in the same
    dtype."""

    case: Case
    backend: str
    direction: str
    identity: Mapping[str, str] = field(default_factory=dict)
    as_cpu: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the operator: aten.convolution is also nn.functional.conv2d."""
        return (
            _names(self.case)
            if parse_source(self.case.source).kind == ATEN
            else (self.case.operator,)
        )

    def spoken_of_by(self, entry: Expectation) -> bool:
        # Nearly always one of these two: the rest is not asked for hundreds of entries a failure.
        if not is_backend(self.backend, entry.backend):
            return False
        names = [name for name in self.names if _is_named(name, entry.operator)]
        if not names or (entry.torch and entry.backend == "*" and RUNTIME in self.identity):
            return False  # an entry with a version of torch is about torch's kernels
        query = {"dtype": self.case.dtype, "direction": self.direction, "backend": self.backend}
        return any(entry.speaks_of(operator=name, **query, **self._environment) for name in names)

    @functools.cached_property
    def _environment(self) -> dict[str, str]:
        keys = {key: key for key in ("device", "driver", "torch")} | {"instructions": INSTRUCTIONS}
        return {name: str(self.identity.get(key, "")) for name, key in keys.items()}

    def known(
        self,
        entries: Iterable[Expectation],
        verdict: str,
        rho: float | None,
        today: date | None = None,
    ) -> Expectation | None:
        """The entry that explains a failure, or None."""
        day = today or date.today()
        return next(
            (
                e
                for e in self._matching_entries(entries, verdict)
                if e.admits(rho) and e.holds_on(day)
            ),
            None,
        )

    def nearly(
        self,
        entries: Iterable[Expectation],
        verdict: str,
        rho: float | None,
        today: date | None = None,
    ) -> str:
        """Why an entry about this failure does not excuse it: it has expired, or the error has
        grown."""
        day = today or date.today()
        for entry in self._matching_entries(entries, verdict):
            source = f"{entry.place}: {entry.reason}" if entry.place else entry.reason
            if not entry.admits(rho) and entry.holds_on(day):
                return (
                    f"grown beyond what is expected: at most {entry.max_rho:g} × budget ({source})"
                )
            if entry.expires is not None and entry.expires < day:
                return f"expected until {entry.expires}; expired ({source})"
            if entry.since is not None and entry.since > day:
                return f"expected from {entry.since} on ({source})"
        return ""

    def _matching_entries(
        self, entries: Iterable[Expectation], verdict: str
    ) -> Iterable[Expectation]:
        return (
            e
            for e in _naming(entries, self.names)
            if verdict in e.verdicts
            and (self.as_cpu or not e.as_cpu)
            and self.spoken_of_by(e)
            and e.describes(self.case)
        )


_LAST: list[tuple[Sequence[Expectation], NamedEntries]] = []


def by_operator(entries: Sequence[Expectation]) -> NamedEntries:
    """Where entries are found by their operator. Those of a run, which never change, are laid out
    once: it asks for every failure, and to count what was expected."""
    if not _LAST or _LAST[0][0] is not entries:
        laid = NamedEntries(entry.operator for entry in entries)
        if not isinstance(entries, tuple):
            return laid
        _LAST[:] = [(entries, laid)]
    return _LAST[0][1]


def asks_for_cpu(entries: Iterable[Expectation], operator: str) -> bool:
    """Whether an entry is about what torch's CPU makes of the same case."""
    return any(
        (e.as_cpu or is_backend("cpu", e.backend)) and _is_named(operator, e.operator)
        for e in _naming(entries, (operator,))
    )


def _naming(entries: Iterable[Expectation], names: tuple[str, ...]) -> Iterable[Expectation]:
    """The entries whose operator is one of ``names``."""
    if not isinstance(entries, tuple):
        return entries
    return (entries[number] for number in by_operator(entries).of(*names))


@functools.lru_cache(1 << 12)
def _is_named(operator: str, glob: str) -> bool:
    return fnmatchcase(operator, glob)


def _names(case: Case) -> tuple[str, ...]:
    try:
        return case.operator, aten.operator_of(case).ruled_by[0]
    except UsageError:  # a torch that has no such operator
        return (case.operator,)
