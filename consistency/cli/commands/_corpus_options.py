"""The corpus that a run replays, and what it explores with."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ..echo import echo

if TYPE_CHECKING:
    from ...engine.config import RunConfig

NIGHTLY = "nightly"


def prepared(
    chosen: RunConfig,
    folder: Path | None,
    *,
    seed: int | None,
    profile: str,
    out: Path | None,
    asked: bool,
) -> RunConfig:
    """The settings with their corpus, the id of the run, and its seed: the user's, or one that the
    id gives.

    ``folder`` is the corpus that the user named; a nightly run without one gets the standard
    corpus. ``out`` is the interrupted bundle that is completed: it says under which id and with
    which seed it was begun. ``asked``: whether cases beside the corpus are wanted even without a
    time budget. Raises BundleError, UsageError.
    """
    from ...storage.bundle.header import new_id, read_header

    began = time.monotonic()
    header = read_header(out) if out is not None and (out / "bundle.json").exists() else None
    identity = str(header["id"]) if header is not None else new_id()
    chosen = replace(chosen, identity=identity, seed=seed or 0)
    if folder is not None:
        from ...storage.corpus.reading import load

        chosen = replace(chosen, corpus=load(folder), time_limit=None)
    elif profile == NIGHTLY and chosen.source == "drawn":
        chosen = replace(chosen, corpus=_standard(chosen, (header or {}).get("corpus") or {}))
    if chosen.corpus is None:
        return chosen
    _tell(chosen)
    if seed is None:
        seed = int(hashlib.sha256(identity.encode()).hexdigest()[:8], 16)
    explore = chosen.time_budget is not None or asked
    return replace(chosen, seed=seed, explore=explore, used=time.monotonic() - began)


def _standard(chosen: RunConfig, before: dict[str, Any]) -> Any:
    from ...engine.config import operator_dtypes
    from ...engine.standard_corpus import SHARE, standard
    from .corpus import progress

    pairs = operator_dtypes(chosen)
    limit = before.get(
        "groups"
    )  # an interrupted run that drew only part of it is completed with that part
    if isinstance(limit, int) and 0 < limit < len(pairs):
        return replace(standard(pairs[:limit], told=progress()), groups=limit)
    seconds = None if chosen.time_budget is None or before else SHARE * chosen.time_budget
    return standard(pairs, seconds=seconds, told=progress())


def _tell(chosen: RunConfig) -> None:
    """Report which cases of the corpus are not replayed here."""
    from ... import operators
    from ...engine.plan import operator_in

    assert chosen.corpus is not None
    for line in chosen.corpus.problems:
        echo(f"  {line}", err=True)
    corpus_cases = {(case.operator, case.dtype, case.source): case for case in chosen.corpus.cases}
    fitting = {key for key, case in corpus_cases.items() if operator_in(chosen, case) is not None}
    if not fitting:
        raise UsageError(
            f"the corpus {chosen.corpus.name} has no case of what is chosen here; `consistency "
            f"corpus show` tells what is in it"
        )
    if chosen.dtypes is not None or len(chosen.operators) < len(operators.registry()):
        return  # the user's selection explains what is left out
    skipped = sum(
        (case.operator, case.dtype, case.source) not in fitting for case in chosen.corpus.cases
    )
    if skipped:
        echo(
            (
                f"  {skipped:,} of {len(chosen.corpus.cases):,} cases of the corpus are of "
                f"operators that are unknown here"
            ),
            err=True,
        )
