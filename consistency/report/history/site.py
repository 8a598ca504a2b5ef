"""A static site of the matrix: pages that need no network and no server, each with what it shows
inside.

    index.html  operators/NAME.html  latest.html  environments.html  badge.svg  feed.xml
    failures/ID/ (scripts and issues of what fails now)

Everything that came from bundles is escaped: by Jinja in the text, by
:func:`~consistency.report.page_parts.embed_json` in the JSON, and the script puts it into the page
as text only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.files import write_bytes
from ...core.folders import files_of, is_unused, mark, remove_files, subfolder
from ...core.reading import read_bytes
from ...core.regular_files import open_to_read
from ...errors import BundleError, UsageError
from ...storage.bundle.naming import folder_name
from ..page_parts import embed_json, join_scripts, policy_of, source
from .feed import BADGE, FEED, badge, feed
from .matrix_data import data
from .pages import earlier_events, environments_page, latest_page, operator_page
from .snapshot import FAILED, Snapshot

if TYPE_CHECKING:
    from jinja2 import Environment as Templates

SCRIPTS = {
    "index": ("copying.js", "filter_query.js", "matrix.js"),
    "plain": ("copying.js", "plain.js"),
}
MAX_OPERATORS = 5_000
MAX_FOLDERS, MAX_BYTES = 400, 1 << 20  # of failures that are copied, and of a file in one
MAX_TOTAL = 1 << 26  # bytes of all of them
COPIED = ("repro.py", "issue.md")
KIND = "site of a matrix"
PAGES = ("index.html", "latest.html", "environments.html", BADGE, FEED)
_NAME = r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,160}"
_OURS = re.compile(rf"operators/{_NAME}\.html|failures/[0-9]{{3}}-{_NAME}/(?:repro\.py|issue\.md)")
# Titles of pages; sites of earlier versions have no other mark.
_TITLE = re.compile(rb"<title>[^<]{1,400} \xc2\xb7 consistency</title>")
_INDEX = re.compile(rb"<title>[^<]{1,8}Matrix [^<]{0,40} \xc2\xb7 consistency</title>")
_PORTABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,80}")


def earlier_files(out: Path) -> frozenset[str]:
    """The files that an earlier site in ``out`` has; none if it is a new or an empty folder. Raises
    UsageError if it holds anything else, or cannot be read."""
    try:
        listed = files_of(out, KIND)
        if listed is not None:
            return frozenset(name for name in listed if _OURS.fullmatch(name))
        if is_unused(out):
            return frozenset()
        if _is_page(out / "index.html", _INDEX):
            return frozenset(_unlisted(out))
    except OSError as error:
        raise UsageError(_cannot_write(out, error)) from None
    raise UsageError(f"{out} holds something that is no site; name another folder with -o")


def _is_page(path: Path, title: re.Pattern[bytes]) -> bool:
    """Whether it is a page of a site with such a title."""
    try:
        with open_to_read(path) as stream:
            return title.search(stream.read(1 << 12)) is not None
    except (BundleError, FileNotFoundError):
        return False


def _unlisted(out: Path) -> Iterator[str]:
    """The files of a site that was written before sites listed them."""
    for pattern in ("operators/*.html", *(f"failures/*/{name}" for name in COPIED)):
        for path in out.glob(pattern):
            name = path.relative_to(out).as_posix()
            if _OURS.fullmatch(name) and (path.suffix != ".html" or _is_page(path, _TITLE)):
                yield name


def write(snapshot: Snapshot, out: Path, *, artifacts: bool = True) -> Path:
    """Write or update the site in ``out``; of what is there, only files of an earlier site are
    removed. Raises UsageError if ``out`` holds something else or cannot be written, BundleError if
    a link is in the way."""
    earlier = earlier_files(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        _write(snapshot, out, artifacts, earlier)
    except OSError as error:
        raise UsageError(_cannot_write(out, error)) from None
    return out


def _cannot_write(out: Path, error: OSError) -> str:
    return f"cannot write {error.filename or out}: {error.strerror}; name another folder with -o"


def _write(snapshot: Snapshot, out: Path, artifacts: bool, earlier: frozenset[str]) -> None:
    by_operator = snapshot.by_operator()
    operators = list(by_operator)[:MAX_OPERATORS]
    files = {name: f"operators/{file_name(name)}.html" for name in operators}
    copies, links = _scripts(snapshot) if artifacts else ({}, {})
    written = {*PAGES, *files.values(), *copies}
    mark(out, KIND, earlier | written)  # an interrupted site can be written again
    for name, data_ in copies.items():
        write_bytes(subfolder(out, *name.split("/")[:-1]) / name.rpartition("/")[2], data_)
    pages = _Pages()
    latest = latest_page(snapshot, files)
    drawn = data(snapshot, files, links)
    pages.write(
        out / "index.html", "index.html", drawn, latest=latest, many=len(snapshot.environments)
    )
    pages.write(out / "latest.html", "latest.html", None, latest=latest)
    pages.write(
        out / "environments.html",
        "environments.html",
        None,
        environments=environments_page(snapshot),
    )
    news = feed(latest, earlier_events(snapshot, files))
    for name, text in ((BADGE, badge(latest)), (FEED, news)):
        write_bytes(out / name, text.encode("utf-8", "backslashreplace"))
    subfolder(out, "operators")
    for name in operators:
        values = operator_page(snapshot, by_operator[name], links)
        pages.write(out / files[name], "operator.html", None, up="../", name=name, **values)
    remove_files(out, earlier - written)
    mark(out, KIND, written)


class _Pages:
    """The templates and their common values."""

    def __init__(self) -> None:
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

        self._templates: Templates = Environment(
            loader=ChoiceLoader(
                [PackageLoader("consistency.report.history"), PackageLoader("consistency.report")]
            ),
            autoescape=True,
            undefined=StrictUndefined,
        )
        self._style = source("report.css") + _template("matrix.css")
        self._scripts = {
            page: join_scripts(source("page.js"), *map(_template, names))
            for page, names in SCRIPTS.items()
        }

    def write(self, path: Path, template: str, drawn: Any, **values: Any) -> None:
        script = self._scripts["plain" if drawn is None else "index"]
        html = self._templates.get_template(template).render(
            style=self._style, script=script, policy=policy_of(self._style, script),
            data="" if drawn is None else embed_json(drawn),
            **({"up": ""} | values),
        )  # fmt: skip
        page = html.encode("utf-8", "backslashreplace")
        if not _holds(path, page):
            write_bytes(path, page)


def _holds(path: Path, page: bytes) -> bool:
    try:
        return read_bytes(path, len(page)) == page
    except (BundleError, FileNotFoundError):
        return False


def _template(name: str) -> str:
    return (Path(__file__).with_name("templates") / name).read_text(encoding="utf-8")


def file_name(operator: str) -> str:
    """A file name that is valid on every file system; a hash distinguishes names that differ only
    in case or in replaced characters."""
    if _PORTABLE.fullmatch(operator) and operator == operator.lower():
        return operator
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", operator).lstrip(".-")[:60]
    return f"{plain}-{hashlib.sha256(operator.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _scripts(
    snapshot: Snapshot,
) -> tuple[dict[str, bytes], dict[tuple[int, int], tuple[str, ...]]]:
    """Scripts and issues of present failures, to be copied to the site, by their addresses; and the
    addresses by (environment, group)."""
    copies: dict[str, bytes] = {}
    addresses: dict[tuple[int, int], tuple[str, ...]] = {}
    present: dict[Path, frozenset[str]] = {}
    total = 0
    failing = sorted(
        (cell for cell in snapshot.cells.values() if cell.rank == FAILED),
        key=lambda cell: -(cell.rho or 3e38),
    )
    for cell in failing:
        environment, group = snapshot.environments[cell.env], snapshot.groups[cell.group]
        bundle = Path(environment.runs[cell.run].path)
        name = folder_name(cell.case_id, environment.backend, group.direction)
        if bundle not in present:
            present[bundle] = _failures(bundle)
        if name not in present[bundle]:
            continue
        short = f"{len(addresses):03d}-{name}"[:100]
        found = {
            f"failures/{short}/{each}": content
            for each in COPIED
            if (content := _content(bundle / "failures" / name / each, bundle)) is not None
        }
        if not found:
            continue
        copies |= found
        total += sum(map(len, found.values()))
        addresses[cell.env, cell.group] = tuple(found)
        if len(addresses) >= MAX_FOLDERS or total > MAX_TOTAL:
            break
    return copies, addresses


def _failures(bundle: Path) -> frozenset[str]:
    """The names of the folders of a bundle's failures."""
    try:
        return frozenset(path.name for path in (bundle / "failures").iterdir())
    except OSError:
        return frozenset()


def _content(path: Path, bundle: Path) -> bytes | None:
    """A file of bounded size inside the bundle; None if it is anything else."""
    try:
        return read_bytes(path, MAX_BYTES, bundle)
    except (BundleError, OSError):
        return None
