"""A bundle as its reports need it: read once, line by line; counts and groups of everything, in
full only what is shown."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core.model import DIRECTIONS, Case, Comparison, Result, kind
from ..core.text import printable
from ..core.verdict import OutcomeStatus, Verdict
from ..diagnose.determinism import Repeatability
from ..diagnose.precision_scaling import Scaling
from ..engine.known import status
from ..errors import BundleError, ConsistencyError
from ..storage import bundle
from .groups import ReportGroups
from .summary import RunSummary

MAX_NAME = 160  # characters of a name that is shown
MAX_BACKENDS, MAX_KEYS = 64, 200  # of an environment that are shown


@dataclass
class BundleView:
    """What a bundle holds. ``shown`` and ``highest`` say on which line of results.jsonl the result
    stands that represents a kind of failure (:func:`~consistency.engine.events.kind`), and the
    result of an operator with the largest ρ.
    """

    folder: Path
    header: Mapping[str, Any]
    environment: Mapping[str, Mapping[str, str]]
    fingerprints: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    summary: RunSummary = field(default_factory=RunSummary)
    explored: bool = False
    groups: ReportGroups = field(default_factory=ReportGroups)
    shown: dict[tuple[str, ...], int] = field(default_factory=dict)
    highest: dict[str, tuple[float, int]] = field(default_factory=dict)

    @functools.cached_property
    def backends(self) -> list[str]:
        """As they were asked for, then any others that results speak of."""
        asked = self.settings.get("backends")
        named = [short(name) for name in asked] if isinstance(asked, list) else []
        return list(dict.fromkeys([*named, *self.groups.backends]))

    @property
    def settings(self) -> Mapping[str, Any]:
        found = self.header["settings"]
        assert isinstance(found, dict)
        return found

    @property
    def specs(self) -> dict[str, str]:
        """What the user wrote for a backend, where that is not its name."""
        found = self.settings.get("specs")
        return (
            {short(name): text(spec) for name, spec in found.items()}
            if isinstance(found, dict)
            else {}
        )

    @property
    def unavailable(self) -> dict[str, str]:
        """Backends that could not run, with the reason."""
        absent = self.header.get("unavailable")
        return (
            {short(name): text(reason) for name, reason in list(absent.items())[:MAX_KEYS]}
            if isinstance(absent, dict)
            else {}
        )

    @property
    def seconds(self) -> float | None:
        """How long the run took; None of one that did not end."""
        took = self.header.get("seconds")
        return float(took) if isinstance(took, (int, float)) and math.isfinite(took) else None

    @property
    def corpus_lines(self) -> list[str]:
        """Of a run with a corpus, how much of it was replayed, and with which seed it explored;
        empty of other runs."""
        corpus = self.header.get("corpus")
        if not isinstance(corpus, dict):
            return []
        count, of = (short(corpus.get(key)) for key in ("replayed", "cases"))
        found = [
            (
                f"{count} of {of} cases of the corpus {short(corpus.get('name', ''))} "
                f"({short(corpus['digest'])[:12]}) replayed"
            )
        ]
        return (
            [*found, f"explored with seed {self.settings.get('seed')}"] if self.explored else found
        )

    def read_results(self, lines: Collection[int]) -> dict[int, Result]:
        """The results on some lines of results.jsonl, with their cases. Raises BundleError."""
        path, wanted = self.folder / "results.jsonl", frozenset(lines)
        rows = {number: row for number, row in bundle.lines(path, wanted) if number in wanted}
        cases = bundle.cases_of(self.folder, {str(row.get("case_id")) for row in rows.values()})
        found = {
            number: bundle.result_from_json(path, number, row, cases)
            for number, row in rows.items()
        }
        for number, result in found.items():
            if (result.operator, result.dtype) != (
                rows[number].get("operator"),
                rows[number].get("dtype"),
            ):
                raise BundleError(
                    f"{path}:{number}  damaged: its case is of another operator or dtype"
                )
        return found

    def read_worst_failures(self, most: int) -> None:
        """Put the results with their cases into the tally, for the worst failures of the first
        ``most`` operators."""
        chosen = [kind(result) for kinds in self.summary.by_operator()[:most] for result in kinds]
        found = self.read_results([self.shown[one] for one in chosen])
        self.summary.failures |= {one: found[self.shown[one]] for one in chosen}


def read(folder: Path) -> BundleView:
    """Everything a report counts. Raises BundleError with file and line."""
    view = BundleView(folder, bundle.read_header(folder), *environments(folder))
    path = folder / "results.jsonl"
    for number, row in bundle.lines(path):
        try:
            _add(view, number, row)
        except KeyError as error:
            raise BundleError(f"{path}:{number}  damaged: it has no {error}") from None
        except (TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
            raise BundleError(
                f"{path}:{number}  damaged: {type(error).__name__} {printable(str(error)[:100])}"
            ) from None
    view.summary.scalings += _rows(folder / "scaling.jsonl", Scaling.from_json)
    view.summary.repeated += _rows(folder / "determinism.jsonl", Repeatability.from_json)
    view.summary.standings += map(_printable, status.kept(folder))
    view.summary.grown |= dict(_rows(folder / "memory.jsonl", _grown))
    return view


def _add(view: BundleView, number: int, row: Mapping[str, Any]) -> None:
    result = _counted(row)
    alike = kind(result)
    if row.get("shrunk") is True:  # a smaller form of a failure that was counted already
        view.summary.failures[alike] = result
        view.shown[alike] = number
        return
    view.explored = view.explored or row.get("origin") == "explored"
    view.summary.add(result)
    view.groups.add(result, row.get("comparison") or {})
    if result.verdict.fails:
        if view.summary.failures.get(alike) is result:
            view.shown[alike] = number
    elif result.verdict.tested:
        rho = result.metrics.get("rho_max", 0.0)
        if rho > view.highest.get(result.operator, (-1.0, 0))[0]:
            view.highest[result.operator] = (rho, number)


def _counted(row: Mapping[str, Any]) -> Result:
    """As much of a result as is counted: its case knows operator and dtype, its comparison only
    that there was one."""
    operator, dtype, direction, backend = (
        row["operator"],
        row["dtype"],
        row["direction"],
        row["backend"],
    )
    if (
        not (isinstance(operator, str) and isinstance(dtype, str) and isinstance(backend, str))
        or direction not in DIRECTIONS
    ):
        raise ValueError("operator, dtype, direction or backend is no name")
    metrics = row["metrics"]
    numbers = {name: float(metrics[name]) for name in ("rho_max", "ulp_max") if name in metrics}
    comparison = _COMPARED if row.get("comparison") else None
    verdict = _verdict(
        row["verdict"], row["verdict"] == "reduced-precision" and row.get("fails") is False
    )
    return Result(
        _case(operator, dtype), short(backend), direction, verdict, text(row["explanation"]),
        numbers, short(row["family"]),
        comparison=comparison,
    )  # fmt: skip


_COMPARED = Comparison(OutcomeStatus.OK)


@functools.lru_cache(maxsize=4096)
def _case(operator: str, dtype: str) -> Case:
    return Case(short(operator), short(dtype))


@functools.lru_cache(maxsize=64)
def _verdict(name: str, allowed: bool) -> Verdict:
    return Verdict(name, allowed)


@functools.lru_cache(maxsize=4096)
def short(name: object) -> str:
    """A name as it is shown: printable, of bounded length."""
    found = printable(str(name)[: MAX_NAME + 1])
    return found if len(found) <= MAX_NAME else f"{found[: MAX_NAME - 1]}…"


@functools.lru_cache(maxsize=4096)
def text(sentence: object) -> str:
    """A sentence as it is shown."""
    found = printable(str(sentence)[:2001])
    return found if len(found) <= 2000 else f"{found[:1999]}…"


def environments(folder: Path) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """What each backend ran on, and what probes found out about it (for those that were probed).
    Raises BundleError."""
    ran_on: dict[str, dict[str, str]] = {}
    probed: dict[str, dict[str, str]] = {}
    for name, keys in list(bundle.read_environment(folder).items())[:MAX_BACKENDS]:
        found = keys.pop("fingerprint", None)
        ran_on[short(name)] = _values(keys)
        if isinstance(found, dict):
            probed[short(name)] = _values(found)
        elif found:
            probed[short(name)] = {"fingerprint": _value(found)}
    return ran_on, probed


def _values(keys: Mapping[str, object]) -> dict[str, str]:
    return {short(key): _value(value) for key, value in list(keys.items())[:MAX_KEYS]}


def _value(value: object) -> str:
    return text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _printable(found: status.KnownStatus) -> status.KnownStatus:
    words = {
        name: text(getattr(found, name))
        for name in ("entry", "place", "about", "reason", "ticket", "expires", "problem")
    }
    return replace(found, **words)  # type: ignore[arg-type]


def _rows(path: Path, convert: Any) -> Iterator[Any]:
    for number, row in bundle.lines(path):
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
