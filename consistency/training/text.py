"""Reports of model comparisons in words, and as JSON."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict
from typing import Any

from ..core.text import format_factor, pluralize
from ..report.failure import message
from .findings import BackendReport, Curve, FailedCall, ModelReport
from .rounding_envelope import FACTOR, FAR_REPLICAS, FAR_SCALE

REASONS = 4
REMEASURED = (
    f"no operator was to blame for what left the first band; in this one are {FAR_REPLICAS} "
    f"replicas moved {FAR_SCALE:g} × as far, which take other branches"
)


def report_text(report: ModelReport) -> str:
    """The verdict of every backend, the first operator that is wrong, and what was not checked."""
    steps = (
        f"{pluralize(report.steps, 'step')} of training"
        if report.steps
        else "one pass forward and backward"
    )
    band = (
        f"; band: {FACTOR:g} × the RMS distance of {report.replicas} replicas of float64"
        if report.tested
        else ""
    )
    lines = [
        f"{report.name}: {report.verdict}",
        f"  {report.parameters:,} parameters, {steps}{band}",
    ]
    for backend in report.backends.values():
        lines += _backend_lines(backend)
    for mistake in report.mistakes:
        lines += [f"! {mistake.words}", f"    {mistake.remedy}"]
    return "\n".join(lines + [f"note: {note}" for note in report.notes])


def _backend_lines(backend: BackendReport) -> list[str]:
    if backend.absent:
        return [f"– {backend.name}: {backend.absent}"]
    lines = [f"{'✗' if backend.fails else '✓'} {backend.name}: {backend.verdict}"]
    lines += [f"    {_curve_text(curve)}" for curve in backend.curves]
    if backend.remeasured:
        lines.append(f"    {REMEASURED}")
    if backend.layer and backend.first is not None:
        lines.append(f"    the first to leave the band: {backend.layer}")
    if backend.first is not None:
        lines += [f"    {line}" for line in message(backend.first.result, again=False).splitlines()]
        others = Counter(f"{f.operator} in {f.module}" for f in backend.failures[1:])
        if others:
            shown = (f"{count} × {what}" for what, count in others.most_common(REASONS))
            lines.append(f"    also: {', '.join(shown)}")
    lines.append(f"    {calls_text(backend)}")
    lines += [
        f"    not judged: {count:,} × {why}"
        for why, count in list(backend.left_out.items())[:REASONS]
    ]
    return lines


def calls_text(backend: BackendReport) -> str:
    """How many calls were checked; unknown if the process was lost."""
    at = "" if backend.lost else f", {backend.looked_at:,} of them looked at"
    return f"{backend.calls:,} calls{at}, {backend.judged:,} judged in full"


def _curve_text(curve: Curve) -> str:
    worst = max(
        ((d / b if b else 0.0), s)
        for s, d, b in zip(curve.steps, curve.distance, curve.band, strict=True)
    )
    text = f"{curve.name}: at most {format_factor(worst[0])} × the band"
    return text + (f", at step {worst[1]}" if len(curve.steps) > 1 else "")


def report_json(report: ModelReport) -> dict[str, Any]:
    return {
        "name": report.name, "verdict": report.verdict, "steps": report.steps,
        "replicas": report.replicas,
        "parameters": report.parameters, "notes": list(report.notes),
        "mistakes": [{"name": m.name, "words": m.words,
        "remedy": m.remedy} for m in report.mistakes],
        "backends": [_as_json(backend) for backend in report.backends.values()],
    }  # fmt: skip


def _as_json(backend: BackendReport) -> dict[str, Any]:
    body: dict[str, Any] = {"backend": backend.name, "absent": backend.absent}
    if backend.absent:
        return body
    return body | {
        "verdict": backend.verdict, "step": backend.step, "layer": backend.layer,
        "calls": backend.calls,
        "looked_at": backend.looked_at, "judged": backend.judged, "remeasured": backend.remeasured,
        "raised": backend.raised, "lost": backend.lost,
        "seconds": round(backend.seconds, 3),
        "first": _failed_call_json(backend.first) if backend.first is not None else None,
        "failures": [_failed_call_json(f) for f in backend.failures],
        "layers": [_finite(asdict(layer)) for layer in backend.layers],
        "curves": [_finite(asdict(curve)) for curve in backend.curves],
    }  # fmt: skip


def _failed_call_json(failed: FailedCall) -> dict[str, Any]:
    return {
        "operator": failed.operator, "module": failed.module, "call": failed.call,
        "step": failed.step, "rho": json_number(failed.rho),
        "verdict": failed.result.verdict.value, "explanation": failed.result.explanation,
    }  # fmt: skip


def _finite(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: json_number(value) for name, value in fields.items()}


def json_number(value: Any) -> Any:
    """A number, or a sequence of them, as JSON has it: without infinity and NaN."""
    if isinstance(value, (list, tuple)):
        return [json_number(item) for item in value]
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value
