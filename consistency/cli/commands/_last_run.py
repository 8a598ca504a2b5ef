"""The runs that a command without arguments means: the last ones below ``reports/``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ...errors import ConsistencyError, UsageError
from ..echo import echo

REPORTS = Path("reports")
_MAKE = "`consistency run` makes one"


def last_runs(count: int = 1) -> list[Path]:
    """The newest bundles below ``reports/``, oldest first. Raises UsageError if there are
    fewer."""
    from ...storage.bundle.bundle_search import gather

    found = [one.folder for one in gather([REPORTS])[0]] if REPORTS.is_dir() else []
    if len(found) < count:
        what = "no run" if not found else f"only one run ({found[0]})"
        raise UsageError(f"there is {what} below {REPORTS}{'/'}; name one, or {_MAKE}")
    return found[-count:]


def last_run() -> Path:
    """The newest bundle below ``reports/``, which is told. Raises UsageError without one."""
    (folder,) = last_runs()
    echo(f"the last run: {folder}", err=True)
    return folder


def worst_failure() -> Path:
    """The folder of the last run's failure with the largest error, which is told. Raises UsageError
    without one."""
    (bundle,) = last_runs()
    folders = sorted(path.parent for path in (bundle / "failures").glob("*/case.json"))
    if not folders:
        raise UsageError(f"no failure is kept in the last run, {bundle}; name a case")
    worst = max(folders, key=_size)
    many = f", the worst of {len(folders):,}" if len(folders) > 1 else ""
    echo(f"the last run's failure{many}: {worst}", err=True)
    return worst


def _size(folder: Path) -> float:
    """The failure's × budget; infinite where it has none, 0 where that cannot be read."""
    from ...core.reading import MAX_FILE, read_object

    try:
        row: Any = read_object(folder / "result.json", "a result", MAX_FILE, folder)
        return float(row["metrics"].get("rho_max", math.inf))
    except (OSError, ConsistencyError, ValueError, KeyError, TypeError, AttributeError):
        return 0.0
