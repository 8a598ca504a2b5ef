"""Find the case that a user means: a line of JSON, a file, a failure's folder, or an id in a bundle."""

from __future__ import annotations

from pathlib import Path

from .bundle import _cases
from .errors import BundleError, RecipeError, did_you_mean
from .literals import Beside
from .model import Case

MAX_CASE_BYTES = 1 << 20


def find_case(text: str, reports: Path = Path("reports")) -> Case:
    """The case that ``text`` names. Raises RecipeError with one clear line."""
    if text.lstrip().startswith("{"):
        return Case.from_line(text)
    path = Path(text)
    try:
        if path.is_dir():
            path = path / "case.json"
        if path.is_file():
            if path.stat().st_size > MAX_CASE_BYTES:
                raise RecipeError(f"{path} is larger than a case may be ({MAX_CASE_BYTES} bytes)")
            return Case.from_line(path.read_text(encoding="utf-8").strip(), Beside(path.parent))
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or no path at all
        if isinstance(error, RecipeError):
            raise
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise RecipeError(f"{text[:80]!r} cannot be read: {reason}; give a case's line, its folder or its id") from None
    return _by_id(text, reports)


def _by_id(name: str, reports: Path) -> Case:
    known: list[str] = []
    damaged = ""
    for folder in sorted((p.parent for p in reports.glob("*/bundle.json")), reverse=True):
        try:
            cases = _cases(folder)
        except BundleError as error:  # the case may stand in another one
            damaged = damaged or f"; passed over a damaged bundle: {error}"
            continue
        if name in cases:
            return cases[name]
        known += cases
    where = f"in the bundles under {reports}/" if known else f"(there are no bundles under {reports}/)"
    alike = [one for one in known if one[:2] == name[:2]][:1000]
    hint = did_you_mean(name, alike) or "; give a case's line, its folder or its id"
    raise RecipeError(f"no case {name[:80]!r} {where}{hint}{damaged}")
