"""Small bundles of many nights, written by hand in the format of real ones, for tests of the
matrix."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FIRST = datetime.datetime(2026, 10, 1, 1, 0, tzinfo=datetime.UTC)


def row(
    operator: str, case: str, verdict: str = "rounding", rho: float | str | None = 0.25, **more: Any
) -> dict[str, Any]:
    fails = verdict in (
        "divergent",
        "special-values",
        "timeout",
        "crash",
        "error",
        "structure",
        "reduced-precision",
    )
    metrics = {} if rho is None else {"rho_max": rho}
    return {
        "operator": operator, "dtype": "float32", "direction": "forward", "backend": "cpu",
        "verdict": verdict, "fails": fails,
        "explanation": f"{rho} × budget: {verdict}", "metrics": metrics, "case_id": case,
        "family": "unary", "output": "out/0",
        "shapes": [], "sha256": "",
    } | more  # fmt: skip


def night(
    folder: Path,
    number: int,
    rows: Sequence[Mapping[str, Any]],
    *,
    label: str = "lab",
    driver: str = "31.1",
    **header: Any,
) -> Path:
    """A bundle of the night of that number."""
    here = folder / re.sub(r"[^a-z0-9]+", "_", label) / f"{number:03d}"
    here.mkdir(parents=True)
    said = {
        "format": 2, "id": f"{label}-{number:08d}", "label": label,
        "created": (FIRST + datetime.timedelta(days=number)).isoformat(),
        "machine": {"os": "Linux", "cpu": "Zen"}, "corpus": None, "consistency": "0.1.0",
        "settings": {"seed": 0}, "unavailable": {},
        "complete": True,
    } | header  # fmt: skip
    (here / "bundle.json").write_text(json.dumps(said), encoding="utf-8")
    backends = sorted({str(one["backend"]) for one in rows}) or ["cpu"]
    told = {
        name: {"device": "cpu", "driver": driver, "torch": "2.13.0", "fingerprint": {"fma": "yes"}}
        for name in backends
    }
    (here / "environment.json").write_text(json.dumps(told), encoding="utf-8")
    (here / "results.jsonl").write_text(
        "".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8"
    )
    return here


def quiet(operator: str = "exp", cases: int = 6, rho: float = 0.25) -> list[dict[str, Any]]:
    return [row(operator, f"{operator}-{i:010d}", rho=rho * (1 + i / 10)) for i in range(cases)]
