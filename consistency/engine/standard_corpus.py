"""The standard corpus: a few cases of every operator × dtype, drawn with seed 0, once per version
of the code that draws them.

It is cached for the user, one file per operator × dtype. Its digest tells whether two are the same:
the same sources with another Hypothesis may draw other cases, so machines to be compared case by
case share one folder (``consistency corpus make -o FOLDER``).
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import hypothesis
import torch

from .. import operators
from ..core import paths
from ..core.files import write_text
from ..core.model import Case
from ..core.reading import lines
from ..core.version import __version__
from ..errors import ConsistencyError
from ..operators.declare import Operator
from ..storage.cases import case_row
from ..storage.corpus.corpus import Corpus
from ..storage.corpus.reading import STANDARD
from .unit_cases import draw

# cases of an operator × dtype: fewer could not settle that its errors have shifted
# (consistency.report.history.shift_test)
EXAMPLES = 12
SEED = 0
SHARE = 0.25  # share of a time budget that drawing may take; the next run draws the rest
_SOURCES = ("operators", "generate", "core/recipe.py", "core/dtypes.py", "core/model/case.py")


def standard(
    pairs: Sequence[tuple[Operator, str]], *, examples: int = EXAMPLES,
    seconds: float | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
) -> Corpus:  # fmt: skip
    """The standard corpus of these operators × dtypes. Cases not drawn within ``seconds`` are left
    out, with a warning.

    ``told`` is called with the numbers of finished and of all pairs.
    """
    until = None if seconds is None else time.monotonic() + seconds
    cases: dict[str, Case] = {}
    for done, (operator, dtype) in enumerate(pairs):
        kept_cases = _cached(operator, dtype, examples)
        if kept_cases is None and until is not None and time.monotonic() > until:
            remaining = f"{len(pairs) - done:,} of {len(pairs):,} operators × dtypes"
            missing = (
                f"the standard corpus lacks {remaining} this time: drawing its cases took too "
                f"much of the time budget"
            )
            return Corpus(STANDARD, tuple(cases.values()), (missing,), groups=done)
        if kept_cases is None:
            kept_cases = _draw(operator, dtype, examples)
            told(done + 1, len(pairs))
        cases |= {case.id: case for case in kept_cases}
    return Corpus(STANDARD, tuple(cases.values()))


def _draw(operator: Operator, dtype: str, examples: int) -> list[Case]:
    cases, _ = draw(operator, dtype, examples, SEED)
    if (
        operators.registry().get(operator.name) is operator
    ):  # operators of the user are drawn anew each time
        _write_cache(_place(operator, dtype, examples), cases)
    return cases


def _place(operator: Operator, dtype: str, examples: int) -> Path:
    name = hashlib.sha256(f"{operator.name}/{dtype}/{examples}/{SEED}".encode()).hexdigest()[:24]
    return paths.cache() / "corpora" / _version() / f"{name}.jsonl"


def _write_cache(path: Path, cases: Sequence[Case]) -> None:
    """Write atomically: two runs may write the same file at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [case_row(case) for case in cases]
        write_text(path, "".join(f"{row}\n" for row in (*rows, json.dumps({"end": len(rows)}))))
    except OSError:
        return  # continue without a cache


def _cached(operator: Operator, dtype: str, examples: int) -> list[Case] | None:
    try:
        rows = [row for _, row in lines(_place(operator, dtype, examples))]
        if not rows or rows[-1].get("end") != len(rows) - 1:
            return None
        cases = [Case.from_json(row.get("case")) for row in rows[:-1]]
    except ConsistencyError:
        return None
    expected = [(operator.name, dtype, row.get("id")) for row in rows[:-1]]
    return cases if [(case.operator, case.dtype, case.id) for case in cases] == expected else None


@functools.cache
def _version() -> str:
    """The version of all code that decides which cases are drawn."""
    total = hashlib.sha256(f"{__version__}/{hypothesis.__version__}/{torch.__version__}".encode())
    for path in _files():
        total.update(path.name.encode())
        total.update(path.read_bytes())
    return f"{STANDARD}-{total.hexdigest()[:16]}"


def _files() -> Iterator[Path]:
    package = Path(__file__).resolve().parent.parent
    for name in _SOURCES:
        place = package / name
        yield from sorted(place.rglob("*.py")) if place.is_dir() else [place]
