"""Whether a bundle that is completed was begun with the settings of the run that completes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import BundleError
from ..storage.bundle.header import read_header
from .events import Started

_BEFORE = {
    "reference": "float64",
    "source": "drawn",
    "fills": 1,
}  # what bundles mean that are older than these settings


def check_same(folder: Path, event: Started, corpus_now: Mapping[str, Any] | None) -> None:
    """Raise BundleError if the bundle in ``folder`` was begun with other settings."""
    header: Mapping[str, Any] = read_header(folder)
    described: Mapping[str, object] = dict(event.config.describe())
    saved = header["settings"]
    then, now = (
        (corpus or {}).get("digest", "no corpus") for corpus in (header["corpus"], corpus_now)
    )
    if then != now:
        raise BundleError(
            f"{folder} was begun with another corpus ({then[:12]}, now {now[:12]}); "
            "resume with the same, or name another folder with --out"
        )
    for key in (
        "operators",
        "backends",
        "dtypes",
        "directions",
        "examples",
        "seed",
        "tolerances",
        "reference",
        "source",
        "exhaustive",
        "memory",
        "long",
        "shipped",
        "fills",
    ):
        if key in ("exhaustive", "memory", "long", "shipped") and key not in saved:
            continue  # an older bundle gets the cases that are asked for now
        before = saved.get(key, _BEFORE.get(key))
        if before != described[key]:
            raise BundleError(
                f"{folder} was begun with other {key} ({_brief(before)}, now "
                f"{_brief(described[key])}); "
                "resume with the same settings, or name another folder with --out"
            )
    absent, now = sorted(header.get("unavailable", {})), sorted(event.unavailable)
    if absent != now:
        raise BundleError(
            f"{folder} was begun where other backends were unavailable "
            f"({_brief(absent)}, now {_brief(now)}); name another folder with --out"
        )


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "…"
