"""Find the case that a user names: by its line, a file that contains one, a failure's folder, or an
id in a bundle or a recording.

Folders may come from other machines. Their content is checked, and nothing in them is executed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from ..backends._named_backends import named
from ..backends._specs import loads_nothing
from ..core.model import Case, Result
from ..core.reading import read_text
from ..core.schema import Name, Scalar, Text, check
from ..core.text import one_line, printable, quote
from ..errors import BundleError, RecipeError, UsageError, did_you_mean
from ..probes.fingerprint.summary import stored_in
from . import manifest
from .bundle import cases_of, failure_id, lines, read_header, result_from_json
from .bundle.header import stored_environment
from .literals import LiteralStore

MAX_CASE_BYTES = 1 << 20
# environment.json in the folder of a failure.
FailureEnvironment = TypedDict(
    "FailureEnvironment",
    {"backend": dict[Name, Scalar], "judged with": dict[Name, Scalar], "spec": Text},
    total=False,
)
_BEGINS = '{"args"'  # start of a case's line in canonical JSON
REPORTS = Path("reports")


# Files beside a kept case that are about it: who names one means the case.
_OF_A_FAILURE = ("repro.py", "issue.md", "message.txt")


@dataclass(frozen=True)
class StoredCase:
    """A case and its stored failure: ``results`` (the requested one first), the backend's ``spec``
    as the user wrote it (``specs``: of every backend by name), ``environments`` and
    ``fingerprints`` (summaries) by backend, and the ``folder``. ``recording``: the case is from a
    recording, under ``recorded_id``.
    """

    case: Case
    results: tuple[Result, ...] = ()
    spec: str = ""
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    folder: Path | None = None
    recording: bool = False
    recorded_id: str = ""
    fingerprints: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    specs: Mapping[str, str] = field(default_factory=dict)

    @property
    def failing(self) -> Result | None:
        """The first result that fails or is a known failure."""
        return next(
            (r for r in self.results if r.verdict.diverges),
            None,
        )

    def runnable(self, name: str = "") -> str:
        """The spec of the failing backend, or of the backend ``name``; empty if none is stored.

        Raises UsageError if the spec runs a program that the user's configuration does not name,
        since the folder is not trusted.
        """
        spec = self.specs.get(name, name) if name else self.spec
        if spec != name and spec not in named().values() and not loads_nothing(spec):
            raise UsageError(
                f"{self.folder} says that its backend was {printable(spec)!r:.300}, which runs a "
                f"program. If you trust it, add --backend {quote(printable(spec[:300]))}"
            )
        return spec

    @property
    def direction(self) -> str:
        return self.failing.direction if self.failing is not None else ""


def find(text: str, identifier: str | None = None, reports: Path = REPORTS) -> StoredCase:
    """The case that ``text`` names; ``identifier`` selects one in a bundle or a recording. Raises
    RecipeError or BundleError."""
    if text.lstrip().startswith("{"):
        return StoredCase(Case.from_line(text))
    path = Path(text)
    try:
        if path.is_dir():
            return _in_folder(path, identifier)
        if path.is_file():
            kept = path.name in _OF_A_FAILURE and (path.parent / "case.json").is_file()
            return _in_folder(path.parent, None) if kept else _in_file(path, follow=True)
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or no path at all
        if isinstance(error, RecipeError):
            raise
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise RecipeError(
            f"{text[:80]!r} cannot be read: {reason}; give a case's line, its folder or its id"
        ) from None
    return _search_reports(text, reports)


def _in_folder(folder: Path, identifier: str | None) -> StoredCase:
    if (folder / "recording.json").is_file():
        return _recorded(folder, identifier)
    if (folder / "bundle.json").is_file():
        if identifier is None:
            raise RecipeError(
                f"{folder} is a bundle: which case of it? Add --id ID, as its results.jsonl "
                f"calls it (case_id)"
            )
        stored = _in_bundle(folder, identifier)
        if stored is None:
            hint = did_you_mean(identifier, cases_of(folder))
            raise RecipeError(f"no case {identifier[:80]!r} in {folder}{hint}")
        return stored
    if not (folder / "case.json").is_file():
        raise RecipeError(
            f"no case {str(folder)[:80]!r}: the folder has no case.json, bundle.json or "
            f"recording.json"
        )
    manifest.check(folder)
    case = _in_file(folder / "case.json").case
    results = tuple(_stored_result(folder / "result.json", case))
    backend = results[0].backend if results else ""
    environment, spec = _environment(folder / "environment.json")
    fingerprints = _fingerprints_of_bundle(folder.resolve())
    return StoredCase(
        case,
        results,
        spec or backend,
        {backend: environment},
        folder,
        fingerprints=fingerprints,
        specs={backend: spec or backend},
    )


def _in_file(path: Path, *, follow: bool = False) -> StoredCase:
    text = read_text(path, MAX_CASE_BYTES, follow=follow).strip()
    if not text.startswith("{"):  # a script, an issue or a log
        text = _first_case(text)
    return StoredCase(Case.from_line(text, LiteralStore(path.parent)), folder=path.parent)


def _first_case(text: str) -> str:
    """The first case's line in ``text``, or all of ``text`` if there is none."""
    place = text.find(_BEGINS)
    if place < 0:
        return text
    try:
        return text[place : json.JSONDecoder().raw_decode(text, place)[1]]
    except (ValueError, RecursionError):
        return text[place:]


def _json(path: Path) -> Any:
    try:
        return json.loads(read_text(path, MAX_CASE_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise BundleError(f"{path} cannot be read: {str(error)[:120]}") from None


def _stored_result(path: Path, case: Case) -> Iterator[Result]:
    row = _json(path)
    if row is not None:
        if not isinstance(row, dict) or row.get("case_id") != case.id:
            raise BundleError(
                f"{path} does not belong to the case beside it ({one_line(case.id, 80)})"
            )
        yield result_from_json(path, 1, row, {case.id: case})


def _environment(path: Path) -> tuple[dict[str, str], str]:
    """environment.json: variables and versions of the failing backend, and its spec."""
    data = _json(path) or {}
    check(data, FailureEnvironment, path)
    return _texts(data.get("backend", {})), data.get("spec", "")[:400]


def _texts(environment: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in environment.items() if key != "fingerprint"}


def _fingerprints(environments: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    return {name: stored for name, item in environments.items() if (stored := stored_in(item))}


def _fingerprints_of_bundle(failure: Path) -> dict[str, dict[str, str]]:
    """Fingerprints of the bundle that contains a failure's folder. They are optional, so a damaged
    bundle is ignored."""
    bundle = failure.parent.parent
    if failure.parent.name == "failures" and (bundle / "bundle.json").is_file():
        with contextlib.suppress(BundleError):
            return _fingerprints(stored_environment(bundle))
    return {}


def _in_bundle(folder: Path, identifier: str) -> StoredCase | None:
    """A case by its id, or a failure by the name of its folder; None if there is neither."""
    cases, path = cases_of(folder), folder / "results.jsonl"
    case_ids = {
        texts for texts in cases if identifier == texts or identifier.startswith(f"{texts}-")
    }
    if not case_ids:
        return None
    rows = ((number, row) for number, row in lines(path) if row.get("case_id") in case_ids)
    results = [result_from_json(path, number, row, cases) for number, row in rows]
    case = cases.get(identifier)
    if case is None:
        results = [r for r in results if failure_id(r) == identifier]
        if not results:
            return None
    results.sort(key=lambda r: not r.verdict.fails)
    settings = read_header(folder)["settings"]
    environments = stored_environment(folder)
    texts = {name: _texts(item) for name, item in environments.items()}
    specs = settings.get("specs", {})
    failing = results[0].backend if results else ""
    spelled = {name: spec[:400] for name, spec in specs.items()}
    spec, probed = spelled.get(failing, failing), _fingerprints(environments)
    return StoredCase(
        case or results[0].case,
        tuple(results),
        spec,
        texts,
        folder,
        fingerprints=probed,
        specs=spelled,
    )


def _recorded(folder: Path, identifier: str | None) -> StoredCase:
    from .recording.reading import Recording

    recording = Recording(folder)
    try:
        if identifier is None:
            raise RecipeError(
                f"{folder} is a recording: which outcome of it? Add --id ID, as `consistency "
                f"judge` shows it"
            )
        row = next((row for row in recording.rows if identifier in (row.id, row.case_id)), None)
        if row is None:
            hint = did_you_mean(identifier, [row.id for row in recording.rows])
            raise RecipeError(f"no outcome {identifier[:80]!r} in {folder}{hint}")
        header = recording.header
        environments = {
            header.backend: {
                **header.environment,
                **header.configurations.get(row.configuration, {}),
            }
        }
        return StoredCase(
            recording.cases[row.case_id], (), header.backend, environments, folder, True, row.id
        )
    finally:
        recording.close()


def _search_reports(name: str, reports: Path) -> StoredCase:
    case_ids: list[str] = []
    damaged = ""
    for folder in sorted((p.parent for p in reports.glob("*/bundle.json")), reverse=True):
        try:
            stored = _in_bundle(folder, name)
            if stored is not None:
                return stored
            case_ids += cases_of(folder)
        except BundleError as error:  # the case may be in another bundle
            damaged = damaged or f"; passed over a damaged bundle: {error}"
    location = (
        f"in the bundles under {reports}/"
        if case_ids
        else f"(there are no bundles under {reports}/)"
    )
    similar = [case_id for case_id in case_ids if case_id[:2] == name[:2]][:1000]
    hint = did_you_mean(name, similar) or "; give a case's line, its folder or its id"
    if "/" in name or "\\" in name:
        raise RecipeError(f"there is no folder or file {name[:80]!r}{damaged}")
    raise RecipeError(f"no case {name[:80]!r} {location}{hint}{damaged}")
