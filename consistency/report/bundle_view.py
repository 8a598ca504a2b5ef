"""A bundle as reports need it, read once line by line: counts and groups of all results, and
complete results only where they are shown."""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from ..core.model import Case, Cause, Comparison, Evidence, Measured, Result
from ..core.regular_files import open_to_read
from ..core.schema import Count, Finite, Number, checked_lines
from ..core.text import one_line, printable
from ..core.verdict import OutcomeStatus, Verdict
from ..diagnose.determinism import Repeatability, RepeatabilityRow
from ..diagnose.precision_scaling import Scaling, ScalingRow
from ..engine.known import standing
from ..engine.measurement_files import MemoryRow
from ..errors import BundleError, ConsistencyError
from ..storage import bundle
from .failure_groups import FailureKey
from .groups import ReportGroups
from .summary import RunSummary

MAX_NAME = 160  # displayed characters of a name
MAX_BACKENDS, MAX_KEYS = 64, 200  # displayed backends, and keys of an environment
MAX_RIVALS = 40  # causes that a failure votes for


@dataclass
class BundleView:
    """The content of a bundle. ``worst`` and ``smallest`` are the lines of results.jsonl with the
    worst drawn and the minimized failure of each key, ``highest`` the largest ρ of each operator
    and its line. ``cut``: the last line is incomplete.
    """

    folder: Path
    header: Mapping[str, Any]
    environment: Mapping[str, Mapping[str, str]]
    fingerprints: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    summary: RunSummary = field(default_factory=RunSummary)
    explored: bool = False
    groups: ReportGroups = field(default_factory=ReportGroups)
    worst: dict[FailureKey, int] = field(default_factory=dict)
    smallest: dict[FailureKey, int] = field(default_factory=dict)
    highest: dict[str, tuple[float, int]] = field(default_factory=dict)
    cut: bool = False

    @functools.cached_property
    def backends(self) -> list[str]:
        """The requested backends, then any others with results."""
        named = [short(name) for name in self.settings.get("backends", ())]
        return list(dict.fromkeys([*named, *self.groups.backends]))

    @property
    def settings(self) -> Mapping[str, Any]:
        settings: Mapping[str, Any] = self.header["settings"]
        return settings

    @property
    def specs(self) -> dict[str, str]:
        """Specs by backend, where the user's spec is not the name."""
        return {short(name): text(spec) for name, spec in self.settings.get("specs", {}).items()}

    @property
    def unavailable(self) -> dict[str, str]:
        """Backends that could not run, with the reason."""
        absent = list(self.header.get("unavailable", {}).items())
        return {short(name): text(reason) for name, reason in absent[:MAX_KEYS]}

    @property
    def seconds(self) -> float | None:
        """Duration of the run; None if it did not end."""
        seconds: float | None = self.header.get("seconds")
        return seconds

    @property
    def not_whole(self) -> str:
        """Why the bundle holds less than its run was to have, in words; empty if it is whole."""
        if missing := bundle.cut_off(self.folder, self.header):
            return missing
        if self.cut:
            return "results.jsonl ends in the middle of a line: the bundle was cut off"
        if self.seconds is None:
            return "the run did not end: what is here was judged before it was interrupted"
        return ""

    @property
    def corpus_lines(self) -> list[str]:
        """For a run with a corpus, the number of replayed cases and the seed of exploration;
        otherwise empty."""
        corpus = self.header["corpus"]
        if corpus is None:
            return []
        count, of = (short(corpus.get(key)) for key in ("replayed", "cases"))
        lines = [
            (
                f"{count} of {of} cases of {called(short(corpus.get('name', '')))} "
                f"({short(corpus['digest'])[:12]}) replayed"
            )
        ]
        return (
            [*lines, f"explored with seed {self.settings.get('seed')}"] if self.explored else lines
        )

    def read_results(self, lines: Collection[int]) -> dict[int, Result]:
        """The results in some lines of results.jsonl, with their cases. Raises BundleError."""
        path, requested = self.folder / "results.jsonl", frozenset(lines)
        rows = {number: row for number, row in bundle.lines(path, requested) if number in requested}
        cases = bundle.cases_of(self.folder, {str(row.get("case_id")) for row in rows.values()})
        results = {
            number: bundle.result_from_json(path, number, row, cases)
            for number, row in rows.items()
        }
        for number, result in results.items():
            if (result.operator, result.dtype) != (
                rows[number].get("operator"),
                rows[number].get("dtype"),
            ):
                raise BundleError(
                    f"{path}:{number}  damaged: its case is of another operator or dtype"
                )
        return results

    def read_worst_failures(self, most: int) -> None:
        """Load the complete results of the failures of the first ``most`` operators into the
        summary."""
        failures = self.summary.failures
        keys = [key for one in self.summary.by_operator()[:most] for g in one for key in g.keys]
        small = [key for key in self.smallest if key.pool[0] in {key.pool[0] for key in keys}]
        lines = [*map(self.worst.__getitem__, keys), *map(self.smallest.__getitem__, small)]
        results = self.read_results(lines)
        failures.worst |= {key: results[self.worst[key]] for key in keys}
        failures.smallest |= {key: results[self.smallest[key]] for key in small}


class _Output(TypedDict, total=False):
    name: str
    elements: Finite
    terms: Finite
    differing: Count
    special: dict[str, Count]


class _Comparison(TypedDict, total=False):
    outputs: list[_Output]


class _Cause(TypedDict):
    name: str
    words: str
    share: Finite


class _Evidence(TypedDict, total=False):
    initial_verdict: str
    first: str  # as earlier versions called it
    cause: _Cause | None
    rivals: list[str]


class _Metrics(TypedDict, total=False):
    rho_max: Number
    ulp_max: Number


class CountedRow(TypedDict):
    """What is read of every row of results.jsonl; single rows are read as a whole later."""

    operator: str
    dtype: str
    direction: Literal["forward", "backward"]
    backend: str
    verdict: str
    explanation: str
    family: str
    metrics: _Metrics
    fails: NotRequired[bool]
    shrunk: NotRequired[bool]
    origin: NotRequired[str]
    output: NotRequired[str]
    comparison: NotRequired[_Comparison | None]
    evidence: NotRequired[_Evidence | None]


def read(folder: Path) -> BundleView:
    """Read a bundle for reports. Raises BundleError with file and line."""
    view = BundleView(folder, bundle.read_header(folder), *environments(folder))
    path = folder / "results.jsonl"
    view.cut = _ends_in_a_line(path)
    for number, row in checked_lines(path, CountedRow):
        try:
            _add(view, number, row)
        except ValueError as error:
            raise BundleError(f"{path}:{number}  damaged: {one_line(str(error), 100)}") from None
    scalings = _rows(folder / "scaling.jsonl", ScalingRow, Scaling.from_json)
    repeated = _rows(folder / "determinism.jsonl", RepeatabilityRow, Repeatability.from_json)
    view.summary.scalings += (
        replace(one, operator=short(one.operator), backend=short(one.backend), told=text(one.told))
        for one in scalings
    )
    view.summary.repeated += (
        replace(
            one, operator=short(one.operator), dtype=short(one.dtype), backend=short(one.backend)
        )
        for one in repeated
    )
    view.summary.standings += map(_printable, standing.kept(folder))
    view.summary.grown |= dict(_rows(folder / "memory.jsonl", MemoryRow, _grown))
    return view


def _ends_in_a_line(path: Path) -> bool:
    """Whether a plain file ends without a line break, as after a crash or a copy that broke off."""
    try:
        with io.BufferedReader(open_to_read(path)) as stream:
            if not stream.seek(0, io.SEEK_END):
                return False
            stream.seek(-1, io.SEEK_END)
            return stream.read(1) != b"\n"
    except OSError:
        return False  # packed, or missing: reading says what is wrong


def _add(view: BundleView, number: int, row: CountedRow) -> None:
    result = _counted(row)
    if row.get("shrunk") is True:  # the minimized form of a failure that was counted already
        view.smallest[view.summary.failures.shrunk(result)] = number
        return
    view.explored = view.explored or row.get("origin") == "explored"
    view.summary.add(result)
    view.groups.add(result, row.get("comparison") or {})
    if result.verdict.fails:
        key = FailureKey.of(result)
        if view.summary.failures.worst.get(key) is result:
            view.worst[key] = number
    elif result.verdict.tested:
        rho = result.metrics.get("rho_max", 0.0)
        if rho > view.highest.get(result.operator, (-1.0, 0))[0]:
            view.highest[result.operator] = (rho, number)


def _counted(row: CountedRow) -> Result:
    """The part of a result that is counted: its case has only operator and dtype, its comparison is
    empty, or for the vote on causes has the numbers of wrong elements."""
    metrics: Mapping[str, Any] = row["metrics"]
    numbers = {name: float(metrics[name]) for name in _SHOWN if name in metrics}
    comparison = _COMPARED if row.get("comparison") else None
    verdict = _verdict(
        row["verdict"], row["verdict"] == "reduced-precision" and row.get("fails") is False
    )
    output, evidence = "", None
    if verdict.fails:
        output = text(row.get("output", ""))
        comparison = _voting(row.get("comparison"))
        evidence = _evidence(row.get("evidence"), verdict.value)
    return Result(
        _case(row["operator"], row["dtype"]), short(row["backend"]), row["direction"], verdict,
        text(row["explanation"]),
        numbers, short(row["family"]), output=output,
        comparison=comparison, evidence=evidence,
    )  # fmt: skip


def _voting(row: _Comparison | None) -> Comparison | None:
    """What the weight of a vote is made of."""
    if not row:
        return None
    outputs = tuple(
        Measured(
            text(one.get("name", "")), "", (), 0, differing=one.get("differing", 0),
            special=one.get("special", {}),
        )
        for one in row.get("outputs", ())
    )  # fmt: skip
    return Comparison(OutcomeStatus.OK, outputs)


def _evidence(row: _Evidence | None, verdict: str) -> Evidence | None:
    if not row:
        return None
    cause = row.get("cause")
    return Evidence(
        short(row.get("initial_verdict") or row.get("first") or verdict),
        cause=(
            Cause(short(cause["name"]), text(cause["words"]), cause["share"]) if cause else None
        ),
        rivals=tuple(map(short, row.get("rivals", ())[:MAX_RIVALS])),
    )


_SHOWN = ("rho_max", "ulp_max")
_COMPARED = Comparison(OutcomeStatus.OK)


@functools.lru_cache(maxsize=4096)
def _case(operator: str, dtype: str) -> Case:
    return Case(short(operator), short(dtype))


@functools.lru_cache(maxsize=64)
def _verdict(name: str, allowed: bool) -> Verdict:
    return Verdict(name, allowed)


@functools.lru_cache(maxsize=4096)
def short(name: object) -> str:
    """A name for display: printable, of bounded length."""
    printed = one_line(str(name)[: MAX_NAME + 1])
    return printed if len(printed) <= MAX_NAME else f"{printed[: MAX_NAME - 1]}…"


@functools.lru_cache(maxsize=4096)
def text(sentence: object) -> str:
    """A sentence for display: printable, of bounded length."""
    printed = one_line(str(sentence)[:2001], 3000)
    return printed if len(printed) <= 2000 else f"{printed[:1999]}…"


def called(corpus: str) -> str:
    """``the corpus nightly``; a corpus whose name is that word is called so once."""
    return f"the corpus {corpus}" if corpus not in ("", "corpus") else "the corpus"


def environments(folder: Path) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """The environment of each backend, and the fingerprint of each probed one. Raises
    BundleError."""
    environment: dict[str, dict[str, str]] = {}
    probed: dict[str, dict[str, str]] = {}
    for name, keys in list(bundle.read_environment(folder).items())[:MAX_BACKENDS]:
        fingerprint = keys.pop("fingerprint", None)
        environment[short(name)] = _values(keys)
        if isinstance(fingerprint, dict):
            probed[short(name)] = _values(fingerprint)
        elif fingerprint:
            probed[short(name)] = {"fingerprint": _value(fingerprint)}
    return environment, probed


def _values(keys: Mapping[str, object]) -> dict[str, str]:
    return {short(key): _value(value) for key, value in list(keys.items())[:MAX_KEYS]}


def _value(value: object) -> str:
    return text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _printable(known_status: standing.KnownStatus) -> standing.KnownStatus:
    words = {
        name: text(getattr(known_status, name))
        for name in ("entry", "place", "about", "reason", "ticket", "expires", "problem")
    }
    return replace(known_status, **words)  # type: ignore[arg-type]


def _rows(path: Path, model: Any, convert: Any) -> Iterator[Any]:
    for number, row in checked_lines(path, model):
        try:
            yield convert(row)
        except (
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            OverflowError,
            ConsistencyError,
        ) as error:
            raise BundleError(
                f"{path}:{number}  damaged: {type(error).__name__} {printable(str(error)[:100])}"
            ) from None


def _grown(row: Mapping[str, Any]) -> tuple[tuple[str, str], float]:
    return (short(row["backend"]), short(row["operator"])), float(row["bytes"])
