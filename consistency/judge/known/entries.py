"""Known divergences as values: what an entry is about, what it covers, and what it explains."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase

from ...core.case_source import ATEN, parse_source
from ...core.model import Case
from ...errors import UsageError
from ...generate.calls import aten
from ..file_vocabulary import in_range, is_backend
from .case_facts import Facts
from .predicate import Predicate

INSTRUCTIONS = "mkl instructions"  # how environments call it
IMPROBABLE = 1e-3  # from here on, that an expected failure stayed away by chance
RATE_ALONE, RATE_DESCRIBED, RATE_FLAKY = (
    0.03,
    0.5,
    0.01,
)  # share of failing results, where an entry does not say it
LEAST = 3  # results, before anything is said to happen no longer


@dataclass(frozen=True, slots=True)
class Expectation:
    """A known divergence with its ticket; ``since`` and ``expires`` are the first and the last day
    it holds.

    ``when`` says on which cases it happens, ``torch`` and ``driver`` in which versions,
    ``instructions`` where MKL takes them. ``max_rho`` (× budget) is the ratchet: what errs more is
    another failure. ``rate`` is the share of the results covered that fail (None: not said),
    ``flaky`` says that the same case fails sometimes only. ``place`` is ``tolerances.yaml:41``.
    """

    operator: str
    dtype: str = "*"
    direction: str = "*"
    backend: str = "*"
    verdicts: tuple[str, ...] = ()
    max_rho: float | None = None
    reason: str = ""
    ticket: str = ""
    since: date | None = None
    expires: date | None = None
    place: str = ""
    device: str = "*"
    driver: str = ""
    torch: str = ""
    instructions: str = "*"
    when: Predicate | None = None
    rate: float | None = None
    flaky: bool = False

    @property
    def id(self) -> str:
        """Ten digits that stay the same when the entry moves in its file, is renewed or explained
        otherwise."""
        when = self.when.text if self.when is not None else ""
        said = [
            self.operator,
            self.dtype,
            self.direction,
            self.backend,
            self.device,
            self.driver,
            self.torch,
            when,
        ]
        said += [] if self.instructions == "*" else [self.instructions]
        return hashlib.sha256(json.dumps([*said, sorted(self.verdicts)]).encode()).hexdigest()[:10]

    @property
    def likely(self) -> float:
        """The share of the results covered that should fail, as the entry says or as is assumed."""
        if self.rate is not None:
            return self.rate
        return RATE_FLAKY if self.flaky else RATE_ALONE if self.when is None else RATE_DESCRIBED

    @property
    def enough(self) -> int:
        """How many results must all pass before it is improbable (p < 1e-3) that the divergence is
        still there."""
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
        """Whether results of this kind are covered; of which cases, ``when`` says."""
        return (
            fnmatchcase(operator, self.operator)
            and fnmatchcase(dtype, self.dtype)
            and self.direction in ("*", direction)
            and is_backend(backend, self.backend)
            and fnmatchcase(device, self.device)
            and fnmatchcase(instructions, self.instructions)
            and in_range(driver, self.driver)
            and in_range(torch, self.torch)
        )

    def describes(self, case: Case | None) -> bool:
        """Whether ``when`` is true of a case; where nothing is known of the case, only entries
        without one hold."""
        return self.when is None or (case is not None and self.when.holds(Facts(case)))

    def admits(self, rho: float | None) -> bool:
        """The ratchet: where ``max_rho`` is given, an error that is larger or unknown is another
        failure."""
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
        """Whether a failing result was expected."""
        where = {
            "dtype": dtype,
            "direction": direction,
            "backend": backend,
            "device": device,
            "driver": driver,
            "torch": torch,
        }
        where |= {"instructions": instructions}
        return (
            verdict in self.verdicts
            and self.speaks_of(operator=operator, **where)
            and self.admits(rho)
            and self.holds_on(today or date.today())
            and self.describes(case)
        )

    def __str__(self) -> str:
        """``matmul float32 on cuda when K > 256``."""
        said = [self.operator, *(part for part in (self.dtype, self.direction) if part != "*")]
        said += [] if self.backend == "*" else ["on", self.backend]
        return " ".join(said) + (f" when {self.when}" if self.when is not None else "")


@dataclass(frozen=True)
class Occasion:
    """A case on a backend in a direction: what entries are asked about. ``identity`` is what the
    backend ran on."""

    case: Case
    backend: str
    direction: str
    identity: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """What the operator is called: aten.convolution is known as nn.functional.conv2d, too."""
        return (
            _names(self.case)
            if parse_source(self.case.source).kind == ATEN
            else (self.case.operator,)
        )

    def spoken_of_by(self, entry: Expectation) -> bool:
        where = {key: str(self.identity.get(key, "")) for key in ("device", "driver", "torch")}
        where |= {"instructions": str(self.identity.get(INSTRUCTIONS, ""))}
        asked = {"dtype": self.case.dtype, "direction": self.direction, "backend": self.backend}
        return any(entry.speaks_of(operator=name, **asked, **where) for name in self.names)

    def known(
        self,
        entries: Iterable[Expectation],
        verdict: str,
        rho: float | None,
        today: date | None = None,
    ) -> Expectation | None:
        """The entry that explains a failure here, or None."""
        day = today or date.today()
        return next(
            (e for e in self._about(entries, verdict) if e.admits(rho) and e.holds_on(day)), None
        )

    def nearly(
        self,
        entries: Iterable[Expectation],
        verdict: str,
        rho: float | None,
        today: date | None = None,
    ) -> str:
        """Why an entry that is about this very failure does not excuse it: it has expired, or the
        error has grown."""
        day = today or date.today()
        for entry in self._about(entries, verdict):
            where = f"{entry.place}: {entry.reason}" if entry.place else entry.reason
            if not entry.admits(rho) and entry.holds_on(day):
                return (
                    f"grown beyond what is expected: at most {entry.max_rho:g} × budget ({where})"
                )
            if entry.expires is not None and entry.expires < day:
                return f"expected until {entry.expires}; expired ({where})"
            if entry.since is not None and entry.since > day:
                return f"expected from {entry.since} on ({where})"
        return ""

    def _about(self, entries: Iterable[Expectation], verdict: str) -> Iterable[Expectation]:
        return (
            e
            for e in entries
            if verdict in e.verdicts and self.spoken_of_by(e) and e.describes(self.case)
        )


def _names(case: Case) -> tuple[str, ...]:
    try:
        return case.operator, aten.operator_of(case).ruled_by[0]
    except UsageError:  # a torch that has no such operator
        return (case.operator,)
