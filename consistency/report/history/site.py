"""A static site of the matrix: pages that need no network and no server, each with what it shows
inside.

    index.html  operators/NAME.html  latest.html  environments.html  failures/ID/ (scripts and
    issues of what fails now)

Everything that came from bundles is escaped: by Jinja in the text, by
:func:`~consistency.report.page_data.embed_json` in the JSON, and the script puts it into the page
as text only.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.files import write_text
from ...errors import UsageError
from ...storage.bundle.naming import folder_name
from ..page import join_scripts, policy_of, source
from ..page_data import embed_json
from .matrix_data import data
from .pages import environments_page, latest_page, operator_page
from .snapshot import FAILED, Snapshot

if TYPE_CHECKING:
    from jinja2 import Environment as Templates

SCRIPTS = {
    "index": ("copying.js", "filter_query.js", "matrix.js"),
    "plain": ("copying.js", "plain.js"),
}
MAX_OPERATORS = 5_000
MAX_FOLDERS, MAX_BYTES = 400, 1 << 20  # of failures that are copied, and of a file in one
COPIED = ("repro.py", "issue.md")
_PORTABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,80}")


def write(snapshot: Snapshot, out: Path, *, artifacts: bool = True) -> Path:
    """Write or update the site in ``out``. Raises UsageError if it cannot be written."""
    try:
        (out / "operators").mkdir(parents=True, exist_ok=True)
        _write(snapshot, out, artifacts)
    except OSError as error:
        raise UsageError(
            f"cannot write {error.filename or out}: {error.strerror}; name another folder with -o"
        ) from None
    return out


def _write(snapshot: Snapshot, out: Path, artifacts: bool) -> None:
    by_operator = snapshot.by_operator()
    operators = list(by_operator)[:MAX_OPERATORS]
    files = {name: f"operators/{file_name(name)}.html" for name in operators}
    links = _copy_scripts(snapshot, out) if artifacts else {}
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
    for name in operators:
        values = operator_page(snapshot, by_operator[name], links)
        pages.write(out / files[name], "operator.html", None, up="../", name=name, **values)
    kept = {Path(file).name for file in files.values()}
    for old in (out / "operators").glob("*.html"):
        if old.name not in kept:
            old.unlink()


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
        if path.exists() and path.read_text(encoding="utf-8", errors="replace") == html:
            return
        write_text(path, html)


def _template(name: str) -> str:
    return (Path(__file__).with_name("templates") / name).read_text(encoding="utf-8")


def file_name(operator: str) -> str:
    """A file name that is valid on every file system; a hash distinguishes names that differ only
    in case or in replaced characters."""
    if _PORTABLE.fullmatch(operator) and operator == operator.lower():
        return operator
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", operator).lstrip(".-")[:60]
    return f"{plain}-{hashlib.sha256(operator.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _copy_scripts(snapshot: Snapshot, out: Path) -> Mapping[tuple[int, int], tuple[str, ...]]:
    """Copy scripts and issues of present failures to the site; returns their addresses by
    (environment, group)."""
    target = out / "failures"
    shutil.rmtree(target, ignore_errors=True)
    addresses: dict[tuple[int, int], tuple[str, ...]] = {}
    failing = sorted(
        (cell for cell in snapshot.cells.values() if cell.rank == FAILED),
        key=lambda cell: -(cell.rho or 3e38),
    )
    for cell in failing:
        environment, group = snapshot.environments[cell.env], snapshot.groups[cell.group]
        bundle = Path(environment.runs[cell.run].path)
        name = folder_name(cell.case_id, environment.backend, group.direction)
        names = [each for each in COPIED if _small_file(bundle / "failures" / name / each, bundle)]
        if not names:
            continue
        short = f"{len(addresses):03d}-{name}"[:100]
        (target / short).mkdir(parents=True)
        for each in names:
            shutil.copyfile(bundle / "failures" / name / each, target / short / each)
        addresses[cell.env, cell.group] = tuple(f"failures/{short}/{each}" for each in names)
        if len(addresses) >= MAX_FOLDERS:
            break
    return addresses


def _small_file(path: Path, bundle: Path) -> bool:
    """Whether it is a file of bounded size inside the bundle."""
    return (
        path.is_file()
        and path.stat().st_size <= MAX_BYTES
        and path.resolve().is_relative_to(bundle.resolve())
    )
