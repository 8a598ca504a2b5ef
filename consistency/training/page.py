"""The report as one self-contained page: no script, no network, styled like the report of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ..core.text import format_factor, pluralize, printable
from ..report.failure import message
from ..report.page_parts import policy_of, source
from .curves import described, picture
from .findings import BackendReport, Layer, ModelReport
from .layer_strip import SHADES, strip
from .text import REMEASURED, calls_text

ROWS = 24  # layers of a backend that are shown
_COLUMNS = (
    ("output", "output"), ("gradient", "gradient"), ("parameter", "parameter"),
    ("parameter_gradient", "its gradient"),
    ("buffer", "buffer"), ("optimizer_state", "optimizer"),
)  # fmt: skip


SHADES_IN_WORDS = [
    *((name, f"up to {limit:g} ×") for limit, name in SHADES), ("h6", "above 1,000 × the band")
]  # fmt: skip


def page(report: ModelReport) -> str:
    """The page as HTML."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    folder = Path(__file__).parent
    layers = [layer for backend in report.backends.values() for layer in backend.layers]
    used = [
        (name, title)
        for name, title in _COLUMNS
        if any(getattr(layer, name) is not None for layer in layers)
    ]
    style = source("report.css") + (folder / "templates" / "model.css").read_text(encoding="utf-8")
    templates = Environment(
        loader=FileSystemLoader(folder / "templates"), autoescape=True, undefined=StrictUndefined
    )
    return templates.get_template("model.html").render(
        style=Markup(style), policy=policy_of(style, ""), report=report,
        name=printable(report.name), facts=_facts(report), columns=[title for _, title in used],
        pictures=[(name, Markup(svg), legend) for name, svg, legend in _pictures(report)],
        headline=_headline(report), shades=SHADES_IN_WORDS, backends=[_backend_context(backend,
        used) for backend in sorted(report.backends.values(), key=_rank)],
    )  # fmt: skip


def _headline(report: ModelReport) -> str:
    failing = next(iter(report.failures), None)
    if failing is None:
        return "Every backend stays within the band" if report.tested else "Not tested"
    return printable(f"{failing.name}{':' if failing.lost else ''} {failing.verdict}").replace(
        " leaves it ", " leaves the band ", 1
    )


def _rank(backend: BackendReport) -> int:
    """Failing backends first, untested ones last."""
    return 0 if backend.fails else 2 if backend.absent else 1


def _facts(report: ModelReport) -> list[str]:
    steps = (
        f"{pluralize(report.steps, 'step')} of training"
        if report.steps
        else "one pass forward and backward"
    )
    return [
        f"{report.parameters:,} parameters",
        steps,
        f"{report.replicas} replicas",
        f"torch {torch.__version__}",
    ]


def _pictures(report: ModelReport) -> list[tuple[str, str, list[tuple[int, str, str]]]]:
    pictures = []
    for title in dict.fromkeys(curve.name for backend in report.tested for curve in backend.curves):
        curves = [(b.name, c) for b in report.tested for c in b.curves if c.name == title]
        image = picture(curves)
        if image:
            legend = [(i % 8, name, described(curve)) for i, (name, curve) in enumerate(curves)]
            pictures.append((f"{title}: distance from float64", image, legend))
    return pictures


def _backend_context(backend: BackendReport, columns: Sequence[tuple[str, str]]) -> dict[str, Any]:
    from markupsafe import Markup

    rows = sorted(backend.layers, key=lambda layer: -layer.worst)[:ROWS]
    shown = [
        layer for layer in backend.layers if layer in rows
    ]  # in the order in which they were computed
    return {
        "strip": Markup(strip(backend.layers, backend.name)),
        "name": printable(backend.name), "absent": printable(backend.absent),
        "fails": backend.fails,
        "verdict": printable(backend.verdict), "layer": printable(backend.layer),
        "message": printable(message(backend.first.result,
        again=False)) if backend.first is not None else "",
        "others": [printable(str(failed)) for failed in backend.failures[1:6]],
        "rows": [(printable(layer.name or "(the model)"), _cells(layer,
        columns)) for layer in shown],
        "more": len(backend.layers) - len(shown),
        "remeasured": REMEASURED if backend.remeasured else "",
        "looked": calls_text(backend),
        "left_out": [f"{count:,} × {printable(why)}" for why,
        count in list(backend.left_out.items())[:6]],
    }  # fmt: skip


def _cells(layer: Layer, columns: Sequence[tuple[str, str]]) -> list[tuple[str, bool]]:
    values = [getattr(layer, name) for name, _ in columns]
    return [("", False) if v is None else (format_factor(v), v > 1.0) for v in values]
