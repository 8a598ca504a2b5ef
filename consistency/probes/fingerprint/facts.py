"""Facts and fingerprints: questions about a backend, each with an answer and its evidence, or with
the reason why there is none.

Bundles carry them between machines, so reading one checks its size and types.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from ...core.schema import Count, Duration, Text, check
from ...errors import BundleError

FORMAT = 1
MAX_FACTS = 2000
MAX_TEXT = 20_000  # characters of one answer, one piece of evidence, one detail
MAX_DETAILS = 64
MAX_JSON = 1 << 23  # characters of a whole fingerprint
INCONCLUSIVE = "inconclusive"
_NOTHING: Mapping[str, str] = MappingProxyType({})


FactText = Annotated[str, Field(max_length=MAX_TEXT)]


class StoredFact(TypedDict):
    """A fact as JSON data."""

    question: FactText
    answer: NotRequired[FactText]
    evidence: NotRequired[FactText]
    inconclusive: NotRequired[FactText]
    details: NotRequired[Annotated[dict[FactText, FactText], Field(max_length=MAX_DETAILS)]]
    usual: NotRequired[bool]


class StoredFingerprint(TypedDict):
    """A fingerprint as JSON data; ``seconds`` is how long the probes took."""

    fingerprint: int
    facts: Annotated[list[StoredFact], Field(max_length=MAX_FACTS)]
    backend: NotRequired[FactText]
    hash: NotRequired[Text]
    seconds: NotRequired[Duration]
    calls: NotRequired[Count]


@dataclass(frozen=True, slots=True)
class Fact:
    """One question about a backend, with its answer or the reason why there is none.

    ``question`` is ``what/dtype/property``: ``matmul/float32/accumulator``, ``exp/float32/ulp``,
    ``edges/float32/round(0.5)``. ``answer`` is a short text by which two backends are compared
    (``24 bits, nearest even``); ``evidence`` describes the measurement. ``inconclusive`` is the
    reason if nothing was established; the answer is then empty. ``details`` are further texts by
    name for programs. ``usual`` marks the answer of IEEE arithmetic, which summaries may omit.
    """

    question: str
    answer: str = ""
    evidence: str = ""
    inconclusive: str = ""
    details: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    usual: bool = False

    def __post_init__(self) -> None:
        if bool(self.answer) == bool(self.inconclusive):
            raise ValueError(
                f"{self.question}: a fact has either an answer or a reason why there is none"
            )

    @property
    def known(self) -> bool:
        return not self.inconclusive

    @property
    def what(self) -> str:
        """The subject: ``matmul``, ``exp``, ``edges``."""
        return self.question.split("/")[0]

    @property
    def dtype(self) -> str:
        """The dtype of the question, or an empty string."""
        parts = self.question.split("/")
        return parts[1] if len(parts) > 2 else ""

    @property
    def about(self) -> str:
        """The property: ``multiplicand``, ``accumulator``, ``ulp``."""
        parts = self.question.split("/")
        return "/".join(parts[2:] if len(parts) > 2 else parts[1:])

    def __str__(self) -> str:
        return self.answer or f"{INCONCLUSIVE}: {self.inconclusive}"

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"question": self.question}
        body |= {"answer": self.answer} if self.known else {"inconclusive": self.inconclusive}
        body |= {"evidence": self.evidence} if self.evidence else {}
        body |= {"details": dict(self.details)} if self.details else {}
        return body | ({"usual": True} if self.usual else {})

    @staticmethod
    def from_json(data: Any) -> Fact:
        """Raises BundleError."""
        check(data, StoredFact, "a fact of a fingerprint:")
        texts = {key: data.get(key, "") for key in ("question", "answer", "evidence", INCONCLUSIVE)}
        details = MappingProxyType(dict(data.get("details", {})))
        try:
            return Fact(**texts, details=details, usual=data.get("usual") is True)
        except ValueError as error:
            raise BundleError(f"fingerprint: {error}") from None


def unknown(question: str, why: str, evidence: str = "", **details: str) -> Fact:
    """A question without an answer, and the reason ``why``."""
    return Fact(question, evidence=evidence, inconclusive=why, details=MappingProxyType(details))


@dataclass(frozen=True)
class Fingerprint:
    """All facts of one backend in the order of the probes, which took ``seconds``."""

    backend: str
    facts: Mapping[str, Fact]
    seconds: float = 0.0
    calls: int = 0

    @staticmethod
    def of(
        backend: str, facts: Iterable[Fact], seconds: float = 0.0, calls: int = 0
    ) -> Fingerprint:
        return Fingerprint(
            backend, MappingProxyType({fact.question: fact for fact in facts}), seconds, calls
        )

    def __iter__(self) -> Iterator[Fact]:
        return iter(self.facts.values())

    def __len__(self) -> int:
        return len(self.facts)

    def __getitem__(self, question: str) -> Fact:
        return self.facts[question]

    def get(self, question: str) -> Fact | None:
        return self.facts.get(question)

    @property
    def hash(self) -> str:
        """Ten hexadecimal digits of a hash over all answers (empty if inconclusive), without
        evidence."""
        answers = sorted((fact.question, fact.answer) for fact in self)
        return hashlib.sha256(json.dumps(answers).encode("utf-8")).hexdigest()[:10]

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"fingerprint": FORMAT, "backend": self.backend, "hash": self.hash}
        body |= {"seconds": round(self.seconds, 3), "calls": self.calls}
        return body | {"facts": [fact.to_json() for fact in self]}

    @staticmethod
    def from_json(data: Any) -> Fingerprint:
        """Read the output of :meth:`to_json`. Raises BundleError for any other data, or if it is
        too large."""
        if isinstance(data, str):
            if len(data) > MAX_JSON:
                raise BundleError(
                    f"a fingerprint of {len(data)} characters is too large (at most {MAX_JSON})"
                )
            try:
                data = json.loads(data)
            except (ValueError, RecursionError) as error:
                raise BundleError(f"not a fingerprint: {str(error)[:80]}") from None
        if not isinstance(data, dict) or data.get("fingerprint") != FORMAT:
            raise BundleError(
                f"not a fingerprint of format {FORMAT}; make one with consistency fingerprint "
                f"--json"
            )
        check(data, StoredFingerprint, "a fingerprint:")
        facts = [Fact.from_json(item) for item in data["facts"]]
        seconds, calls = float(data.get("seconds", 0.0)), data.get("calls", 0)
        return Fingerprint.of(data.get("backend", ""), facts, seconds, calls)


@dataclass(frozen=True, slots=True)
class Difference:
    """A question with different answers in two fingerprints; None if one lacks it."""

    question: str
    left: Fact | None
    right: Fact | None


def differences(left: Fingerprint, right: Fingerprint) -> tuple[Difference, ...]:
    """Questions with different *established* answers, in the order of ``left``. An inconclusive
    fact is no difference."""
    different = []
    for question in dict.fromkeys((*left.facts, *right.facts)):
        left_fact, right_fact = left.get(question), right.get(question)
        if (
            left_fact is not None
            and right_fact is not None
            and left_fact.known
            and right_fact.known
            and not _alike(question, left_fact.answer, right_fact.answer)
        ):
            different.append(Difference(question, left_fact, right_fact))
    return tuple(different)


def _alike(question: str, a: str, b: str) -> bool:
    """Whether two answers agree. An accumulator's width alone agrees with width and rounding:
    ``24 bits`` and ``24 bits, nearest even``."""
    shorter, longer = sorted((a, b), key=len)
    return shorter == longer or (
        question.endswith("/accumulator")
        and "," not in shorter
        and longer.startswith(f"{shorter}, ")
    )
