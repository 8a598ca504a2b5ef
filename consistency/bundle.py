"""A run on disk: a folder written line by line, which survives a kill at any moment and can be resumed.

    bundle.json        format version, when, settings (first thing written)
    environment.json   what every backend ran on
    cases.jsonl        one case a line, before the first result that refers to it
    literals/          the bits of literal tensors that are too long for a line, a safetensors file each, named by its SHA-256
    results.jsonl      one result a line
    failures/<id>/     repro.py, issue.md, case.json, message.txt, environment.json, literals/,
                       tensors.safetensors (input storages, float64 reference)

Bundles come from other machines: everything is JSON or safetensors, sizes are bounded, names never become paths unchecked.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from . import __version__, literals
from .errors import BundleError, ConsistencyError
from .events import Earlier, Event, Finished, GroupDone, Grown, Judged, Key, Repeated, Scaled, Shrunk, Started, kind
from .model import Case, Cause, Comparison, Evidence, Known, Measured, Result, Span, Verdict, Worst

FORMAT = 1
MAX_LINE = 1 << 24
MAX_FAILURE_FOLDERS = 200  # beyond the shrunk ones, which all get theirs
MAX_NAME = 120  # characters of a folder's name; Windows allows 260 for the whole path
_BEFORE = {"reference": "float64", "source": "drawn"}  # what bundles mean that are older than these settings
_SPEC = re.compile(r"[a-z][a-z0-9]*(:[0-9]+)?(\+[a-z][a-z0-9]*(=[a-z0-9]+)?)*")
_IN_NAMES = str.maketrans({":": "_", "+": "_", "=": "-"})
_PORTABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_UNPORTABLE = re.compile(r"[^A-Za-z0-9_-]+")


def result_to_json(result: Result, *, case: bool = True) -> dict[str, Any]:
    """The fields of a Result as JSON data (``--json`` rows); with ``case=False`` only the case's id stands for it."""
    row: dict[str, Any] = {
        "operator": result.operator, "dtype": result.dtype, "direction": result.direction, "backend": result.backend,
        "verdict": result.verdict.value, "fails": result.verdict.fails, "explanation": result.explanation,
        "metrics": {name: _number(value) for name, value in result.metrics.items()}, "case_id": result.case.id,
        "family": result.family, "output": result.output, "shapes": list(result.shapes), "sha256": result.sha256,
    }  # fmt: skip
    if result.worst is not None:
        worst = result.worst
        row["worst"] = {"index": list(worst.index), "actual": _number(worst.actual), "expected": _number(worst.expected)}
    if result.cause:
        row |= {"cause": result.cause, "share": round(result.share, 6)}
    if result.workaround:
        row["workaround"] = result.workaround
    if result.recorded_id:
        row["recorded_id"] = result.recorded_id
    if result.known is not None:
        row["expectation"] = asdict(result.known)
    if case:
        row["case"] = result.case.to_json()
    return row


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else repr(value)


def _compact(value: Any) -> Any:
    """JSON data without what is empty or zero, which is most of a comparison; reading puts the defaults back."""
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        return {key: _compact(item) for key, item in value.items() if _says_something(key, item)}
    if isinstance(value, (list, tuple)):
        return [_compact(item) for item in value]
    return value


def _says_something(key: str, value: Any) -> bool:
    """No hull of flushed errors differs from an empty one, and -0.0 from the default."""
    return bool(value) or (key == "flushed" and value is not None) or (isinstance(value, float) and math.copysign(1.0, value) < 0.0)


class Writer:
    """The handler that writes a bundle. Each line is flushed before the next case begins."""

    def __init__(self, folder: Path, *, resume: bool = False) -> None:
        self.folder = folder
        self._resume = resume
        self._known: set[str] = set()
        self._there: set[Key] = set()  # what an interrupted run wrote
        self._group: set[Key] = set()  # what this run wrote of the operator × dtype in hand
        self._specs: Mapping[str, str] = {}
        self._identities: Mapping[str, Mapping[str, str]] = {}
        self._results: IO[str] | None = None
        self._cases: IO[str] | None = None
        self._failures = 0

    def __call__(self, event: Event) -> None:
        match event:
            case Started():
                self._start(event)
            case Judged(results=results):
                self._write(results)
            case Shrunk():
                self._write((event.result,), shrunk=True)
            case Scaled():
                rows = [scaling.to_json() for scaling in event.scalings]
                with (self.folder / "scaling.jsonl").open("a", encoding="utf-8", newline="\n") as stream:
                    stream.writelines(json.dumps(row) + "\n" for row in rows)
            case Repeated():
                with (self.folder / "determinism.jsonl").open("a", encoding="utf-8", newline="\n") as stream:
                    stream.writelines(json.dumps(item.to_json()) + "\n" for item in event.found)
            case Grown():
                with (self.folder / "memory.jsonl").open("a", encoding="utf-8", newline="\n") as stream:
                    stream.write(json.dumps({"operator": event.operator, "backend": event.backend, "bytes": event.bytes}) + "\n")
            case GroupDone():
                self._group.clear()
            case Finished():
                self._finish(event)

    def _start(self, event: Started) -> None:
        self._specs = event.settings.specs
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not self._resume and (self.folder / "bundle.json").exists():
                raise BundleError(f"{self.folder} already holds a bundle; add --resume to complete it, or name another folder")
            header = {
                "format": FORMAT, "consistency": __version__, "settings": event.settings.describe(),
                "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "unavailable": event.unavailable,
            }  # fmt: skip
            if self._resume and (self.folder / "bundle.json").exists():
                self._check_same(event)
                self._known = set(_cases(self.folder))
                rows = (row for _, row in lines(self.folder / "results.jsonl"))
                self._there = {(str(row.get("case_id")), str(row.get("backend")), str(row.get("direction"))) for row in rows}
            else:
                _replace(self.folder / "bundle.json", json.dumps(header, indent=1))
            self._identities = {b.name: b.identity for b in event.settings.backends if b.name not in event.unavailable}
            _replace(self.folder / "environment.json", json.dumps(self._identities, indent=1))
            for name in ("cases.jsonl", "results.jsonl"):
                _mend(self.folder / name)
            self._cases = (self.folder / "cases.jsonl").open("a", encoding="utf-8", newline="\n")
            self._results = (self.folder / "results.jsonl").open("a", encoding="utf-8", newline="\n")
        except OSError as error:
            raise BundleError(f"cannot write the bundle {self.folder}: {error.strerror}; name another folder with --out") from None

    def _check_same(self, event: Started) -> None:
        header, wanted = read_header(self.folder), event.settings.describe()
        saved = header["settings"]
        for key in ("operators", "backends", "dtypes", "directions", "examples", "seed", "tolerances", "reference", "source"):
            if saved.get(key, _BEFORE.get(key)) != wanted[key]:
                raise BundleError(
                    f"{self.folder} was begun with other {key} ({_brief(saved.get(key))}, now {_brief(wanted[key])}); "
                    "resume with the same settings, or name another folder with --out"
                )
        absent = header.get("unavailable")
        before, now = sorted(absent) if isinstance(absent, dict) else [], sorted(event.unavailable)
        if before != now:
            raise BundleError(
                f"{self.folder} was begun where other backends were unavailable ({_brief(before)}, now {_brief(now)}); "
                "name another folder with --out"
            )

    def _write(self, results: tuple[Result, ...], *, shrunk: bool = False) -> None:
        assert self._results is not None
        assert self._cases is not None
        results = tuple(r for r in results if r.key not in self._there and r.key not in self._group)
        self._group.update(r.key for r in results)
        for result in results:
            if result.case.id not in self._known:
                self._known.add(result.case.id)
                literals.write(self.folder, result.case)
                self._cases.write(json.dumps({"id": result.case.id, "case": result.case.to_json()}) + "\n")
        self._cases.flush()
        for result in results:
            row = row_of(result)
            if shrunk:
                row["shrunk"] = True
            self._results.write(json.dumps(row, default=str) + "\n")
        self._results.flush()
        for result in results:
            if result.verdict.fails and (shrunk or self._failures < MAX_FAILURE_FOLDERS):
                self._failures += not shrunk
                self._write_failure(result, results)

    def _write_failure(self, result: Result, others: Sequence[Result]) -> None:
        from . import artefact

        artefact.write(
            self.folder / "failures" / failure_id(result), result, spec=self._specs.get(result.backend),
            identity=self._identities.get(result.backend, {}),
            others=[other for other in others if other.direction == result.direction and other.backend != result.backend],
        )  # fmt: skip

    def _finish(self, event: Finished) -> None:
        header = read_header(self.folder) | {"seconds": round(event.seconds, 3), "complete": not event.out_of_time}
        _replace(self.folder / "bundle.json", json.dumps(header, indent=1))
        self.close()

    def close(self) -> None:
        for stream in (self._cases, self._results):
            if stream is not None:
                stream.close()


def row_of(result: Result) -> dict[str, Any]:
    """A result as it is kept, with all that judging it again needs; its case stands elsewhere, under ``case_id``."""
    row = result_to_json(result, case=False)
    if result.comparison is not None:
        row["comparison"] = _compact(asdict(result.comparison))
    if result.evidence is not None:
        row["evidence"] = _compact(asdict(result.evidence))
    return row


def failure_id(result: Result) -> str:
    """A folder name that every file system takes: case id, backend and direction, made of letters, digits, minus and _.

    What is no spec, or too long, ends with a hash instead: no two failures share a folder, not even where case is ignored.
    """
    name = f"{result.case.id}-{result.backend.translate(_IN_NAMES)}-{result.direction}"
    if _SPEC.fullmatch(result.backend) and _PORTABLE.fullmatch(name) and len(name) <= MAX_NAME:
        return name
    full = f"{result.case.id}\n{result.backend}\n{result.direction}".encode("utf-8", "surrogatepass")
    return f"{_UNPORTABLE.sub('_', name).lstrip('-')[: MAX_NAME - 9]}-{hashlib.sha256(full).hexdigest()[:8]}"


def _replace(path: Path, text: str) -> None:
    """Write a small file in one step, so that a kill leaves the old or the new one."""
    scratch = path.with_suffix(".tmp")
    scratch.write_text(text + "\n", encoding="utf-8")
    scratch.replace(path)


def _mend(path: Path) -> None:
    """Cut off a last line that a killed run left incomplete."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("rb+") as stream:
        size = stream.seek(0, os.SEEK_END)
        back = min(size, MAX_LINE)
        stream.seek(size - back)
        tail = stream.read(back)
        if not tail.endswith(b"\n"):
            stream.truncate(size - back + tail.rfind(b"\n") + 1)


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "…"


def read_header(folder: Path) -> dict[str, Any]:
    """bundle.json of a bundle. Raises BundleError."""
    path = folder / "bundle.json"
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BundleError(f"{folder} is not a bundle: it has no bundle.json") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BundleError(f"{path} cannot be read: {str(error)[:120]}") from None
    if not isinstance(header, dict) or not isinstance(header.get("settings"), dict):
        raise BundleError(f"{path} does not describe a bundle")
    if header.get("format") != FORMAT:
        raise BundleError(f"{path} has format {header.get('format')!r}; this version reads format {FORMAT}")
    return header


def lines(path: Path, only: Collection[int] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of a JSONL file. An incomplete last line is passed over; anything else is a BundleError.

    ``only``: the numbers of the lines that are looked into, the others are counted.
    """
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE), b""), start=1):
                if not line.endswith(b"\n"):
                    if len(line) >= MAX_LINE:
                        raise BundleError(f"{path}:{number}  line longer than {MAX_LINE} bytes")
                    return
                if only is not None and number not in only:
                    continue
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise BundleError(f"{path}:{number}  damaged: {str(error)[:100]}") from None
                if not isinstance(row, dict):
                    raise BundleError(f"{path}:{number}  damaged: not an object")
                yield number, row
    except FileNotFoundError:
        return
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}") from None


def read_environment(folder: Path) -> dict[str, dict[str, Any]]:
    """environment.json of a bundle: what each backend ran on, by its name. Raises BundleError."""
    path = folder / "environment.json"
    try:
        if path.stat().st_size > MAX_LINE:
            raise BundleError(f"{path} is larger than {MAX_LINE} bytes")
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise BundleError(f"{path} cannot be read: {str(error)[:120]}") from None
    if not isinstance(found, dict) or not all(isinstance(keys, dict) for keys in found.values()):
        raise BundleError(f"{path} does not describe what backends ran on")
    return found


def cases_of(folder: Path, ids: Collection[str]) -> dict[str, Case]:
    """Some of a bundle's cases, by id; the others are not looked into. Raises BundleError."""
    return _cases(folder, ids)


def _cases(folder: Path, ids: Collection[str] | None = None) -> dict[str, Case]:
    found: dict[str, Case] = {}
    path, beside = folder / "cases.jsonl", literals.Beside(folder)
    for number, row in lines(path):
        if ids is not None and str(row.get("id")) not in ids:
            continue
        try:
            case = Case.from_json(row.get("case"), beside)
        except ConsistencyError as error:
            raise BundleError(f"{path}:{number}  {error}") from None
        if row.get("id") != case.id:
            raise BundleError(f"{path}:{number}  damaged: case {case.id} is filed under another id")
        found[case.id] = case
    return found


def read_results(folder: str | Path) -> list[Result]:
    """Every complete result of a bundle, in order. Raises BundleError with file and line."""
    folder = Path(folder)
    read_header(folder)
    cases = _cases(folder)
    return [result_from_json(folder / "results.jsonl", number, row, cases) for number, row in lines(folder / "results.jsonl")]


def result_from_json(path: Path, number: int, row: dict[str, Any], cases: Mapping[str, Case]) -> Result:
    """The result in line ``number`` of ``path``, whose cases are known. Raises BundleError."""
    try:
        case = cases.get(row["case_id"])
        if case is None:
            raise BundleError(f"{path}:{number}  damaged: cases.jsonl has no case {str(row['case_id'])[:80]!r}")
        metrics = {str(name): float(value) for name, value in row["metrics"].items()}
        worst = _worst(row["worst"]) if "worst" in row else None
        comparison = _comparison(row["comparison"]) if "comparison" in row else None
        verdict = Verdict(row["verdict"], allowed=_allowed(row))
        return Result(
            case, str(row["backend"]), str(row["direction"]), verdict, str(row["explanation"]),
            metrics, str(row["family"]), worst, str(row["output"]), tuple(map(str, row["shapes"])), comparison, str(row["sha256"]),
            _evidence(row["evidence"]) if "evidence" in row else None, str(row.get("recorded_id", "")),
            known_of(row.get("expectation")),
        )  # fmt: skip
    except KeyError as error:
        raise BundleError(f"{path}:{number}  damaged: it has no {error}") from None
    except (TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
        raise BundleError(f"{path}:{number}  damaged: {type(error).__name__} {str(error)[:100]}") from None


def known_of(data: Any) -> Known | None:
    """What :func:`result_to_json` wrote of an expectation that was met. Raises what unfit data raise."""
    if data is None:
        return None
    ratchet = data["max_rho"]
    entry, place, verdict = (str(data[key])[:MAX_NAME] for key in ("entry", "place", "verdict"))
    return Known(entry, place, verdict, None if ratchet is None else float(ratchet), bool(data["flaky"]))


def _allowed(row: Mapping[str, Any]) -> bool:
    return row["verdict"] == "reduced-precision" and row.get("fails") is False


def _worst(data: Any) -> Worst:
    return Worst(tuple(int(i) for i in data.get("index", ())), float(data.get("actual", 0.0)), float(data.get("expected", 0.0)))


def _comparison(data: Any) -> Comparison:
    outputs = tuple(_measured(item) for item in data.get("outputs", ()))
    texts = (str(data.get(key, "")) for key in ("structure", "note", "unsteady"))
    return Comparison(str(data["status"]), outputs, *texts)


def _evidence(data: Any) -> Evidence:
    cause = data.get("cause")
    return Evidence(
        str(data["first"]), int(data.get("repeats", 0)), int(data.get("other", 0)), int(data.get("within", 0)),
        float(data.get("conditioned", 0.0)), float(data.get("rounded", 0.0)),
        float(data["wide"]) if data.get("wide") is not None else None,
        {str(words): float(rho) for words, rho in data.get("trials", {}).items()},
        Cause(str(cause["name"]), str(cause["words"]), float(cause["share"])) if cause else None, str(data.get("company", "")),
    )  # fmt: skip


def _measured(data: Any) -> Measured:
    plain = {k: v for k, v in data.items() if k not in ("spans", "shape", "special_worst")}
    texts = {k: str(v) for k, v in plain.items() if k in ("name", "dtype", "vacuous", "pattern")}
    special = {str(k): int(v) for k, v in plain.pop("special", {}).items()}
    flags = {k: bool(v) for k, v in plain.items() if k in ("exact", "independent")}
    counts = {k: int(v) for k, v in plain.items() if k in ("elements", "differing", "positive", "negative", "outward")}
    floats = {k: float(v) for k, v in plain.items() if k in ("rms", "sigma_rms", "sigma_max", "terms")}
    values: dict[str, Any] = {"name": "", "dtype": "", "elements": 0} | texts | flags | counts | floats
    spans = tuple(_span(item) for item in data.get("spans", ()))
    special_worst = _worst(data["special_worst"]) if "special_worst" in data else None
    cluster = data.get("cluster")
    values["cluster"] = (float(cluster[0]), int(cluster[1]), str(cluster[2])) if cluster else None
    return Measured(
        **values, shape=tuple(map(int, data.get("shape", ()))), spans=spans, special=special, special_worst=special_worst
    )


def _span(data: Any) -> Span:
    interval = tuple(map(float, data["range"])) if "range" in data else None
    return Span(
        (int(interval[0]), interval[1], interval[2]) if interval else None,
        float(data.get("ulp_max", 0.0)), float(data.get("scaled_max", 0.0)), float(data.get("abs_max", 0.0)),
        _corners(data.get("hull", ())) or (), tuple(_worst(item) for item in data.get("worst", ())), _corners(data.get("flushed")),
    )  # fmt: skip


def _corners(data: Any) -> tuple[tuple[float, float], ...] | None:
    return None if data is None else tuple((float(a), float(b)) for a, b in data)


def earlier_results(folder: Path) -> Earlier:
    """What an interrupted run left in its bundle, for resuming it; nothing when there is no bundle yet. Raises BundleError."""
    if not (folder / "bundle.json").exists():
        return Earlier()
    read_header(folder)
    cases, path = _cases(folder), folder / "results.jsonl"
    judged: dict[Key, Result] = {}
    shrunk: dict[tuple[str, ...], Result] = {}
    for number, row in lines(path):
        result = result_from_json(path, number, row, cases)
        if row.get("shrunk") is True:
            shrunk[kind(result)] = result
        elif result.comparison is not None:
            judged[result.key] = result
    return Earlier(judged, shrunk)
