"""A calibration as text and as JSON lines: the table of entries, undetected faults, and entries
that are too tight."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..core.text import format_factor, pluralize, printable
from ..engine.calibrate import FAULTS, Calibration, EntryScore, ObservationGroup, ToleranceChange
from ..engine.calibrate.groups import DECISIVE, FEWEST
from ..engine.calibrate.propose import LOOSE
from ..engine.calibrate.score import NARROW, POOR

if TYPE_CHECKING:
    from rich.text import Text

SHOWN = 25  # lines of each list by default
_COLUMNS = {
    "16 ulp in one": "16u one",
    "16 ulp in all": "16u all",
    "TF32": "TF32",
    "bfloat16": "bf16",
    "bias": "bias",
    "truncated": "trunc",
}
_WHY = {
    "c": "c is too large",
    "lambda": "lambda·G·u·S hides it",
    "both": "c and lambda·G·u·S hide it together",
    "absolute": "the absolute bound hides it",
    "ranges": "a range's own numbers hide it",
    "vacuous": "the cases cannot tell",
    "neither": "within half an ulp, or below the gradient's floor",
}


def table(entries: Sequence[EntryScore]) -> Iterator[Text]:
    """One line per entry: results, largest healthy × budget, margin, and the detected share of each
    planted fault."""
    from rich.text import Text

    heads = (
        "entry",
        "results",
        "max ρ",
        "margin",
        *(_COLUMNS[fault] for fault in FAULTS),
        "operators",
    )
    rows = [(_row(entry), entry) for entry in entries]
    widths = (
        [max(len(head), *(len(row[i]) for row, _ in rows)) for i, head in enumerate(heads[:-1])]
        if rows
        else []
    )
    yield Text(
        "  ".join(
            [
                heads[0].ljust(widths[0]),
                *(h.rjust(w) for h, w in zip(heads[1:-1], widths[1:], strict=True)),
                heads[-1],
            ]
        ),
        "bold",
    )
    for row, entry in rows:
        line = Text(row[0].ljust(widths[0]))
        for i, (cell, width) in enumerate(zip(row[1:], widths[1:], strict=True)):
            line.append("  ").append(cell.rjust(width), _color(i, cell, entry))
        yield line.append("  ").append(_first_names(entry.operators), "dim")


def _row(entry: EntryScore) -> tuple[str, ...]:
    shares = entry.shares
    detected = (shares[fault].value if fault in shares else math.nan for fault in FAULTS)
    percents = ("–" if math.isnan(value) else f"{value:.0%}" for value in detected)
    return (
        entry.place,
        f"{entry.results:,}",
        format_factor(entry.rho),
        format_factor(entry.margin),
        *percents,
    )


def _color(column: int, cell: str, entry: EntryScore) -> str:
    if column == 1 and entry.rho > 1.0:
        return "red"
    fault = FAULTS[column - 3] if column >= 3 else ""
    share = entry.shares.get(fault)
    poor = (
        fault in DECISIVE and share is not None and share.planted >= FEWEST and share.value < POOR
    )
    return "yellow" if poor else ""


def _first_names(names: Sequence[str], limit: int = 3) -> str:
    suffix = f" +{len(names) - limit}" if len(names) > limit else ""
    return printable(", ".join(names[:limit])) + suffix


def inadequate(entries: Sequence[EntryScore], most: int = SHOWN) -> Iterator[str]:
    """The entries that detect fewer than half of a decisive fault in some group, the worst first,
    and what hides the fault.

    Entries measured only on a stand-in are last.
    """
    listed = [(entry, poor) for entry in entries if (poor := entry.poor())]
    listed.sort(key=lambda item: (item[0].stand_in, item[1][0].shares.poorest(), -len(item[1])))
    faults = f"planted {' or '.join(DECISIVE)} faults"
    if not listed:
        yield f"Every entry notices at least half of the {faults}."
        return
    yield (
        f"{pluralize(len(listed), 'entry notices', 'entries notice')} fewer than half of the "
        f"{faults} somewhere:"
    )
    for entry, poor in listed[:most]:
        yield f"  {entry.place}  {pluralize(len(poor), 'group', 'groups')}; {reason(poor)}"
        if not entry.stand_in:
            yield f"      needed of the budget: {_needs(entry)}"
        for group in poor[:4]:
            margin = format_factor(group.margin)
            bounds = f"c {group.rule.c:g}, lambda {group.rule.lam:g}   margin {margin}"
            yield f"      {_group(group)}   {bounds}   {_shares(group)}"
        if len(poor) > 4:
            yield f"      and {len(poor) - 4} more"
    if len(listed) > most:
        yield f"  … and {len(listed) - most} more (--all)"


def _needs(entry: EntryScore) -> str:
    """``eigh 0.22, svd 0.13, half of 30 operators 0.012``."""
    needs = entry.needs()
    first = ", ".join(f"{operator} {format_factor(share)}" for operator, share in needs[:3])
    return first + (
        f", half of {len(needs)} operators at most {format_factor(needs[len(needs) // 2][1])}"
        if len(needs) > 4
        else ""
    )


def reason(groups: Sequence[ObservationGroup]) -> str:
    """What hides most of the decisive faults, and whether healthy results need it."""
    hidden: Counter[str] = Counter()
    for group in groups:
        for fault in DECISIVE:
            hidden += group.shares[fault].hidden_by if fault in group.shares else Counter()
    cause = _WHY[hidden.most_common(1)[0][0]] if hidden else "nothing was planted"
    if all(group.stand_in for group in groups):
        return f"{cause}; what healthy results need is not known here (a stand-in)"
    loose = sum(group.margin > LOOSE for group in groups)
    needs = {
        len(groups): "healthy results leave room: smaller constants would suffice",
        0: "healthy results need it: a sharper S, G or u would suffice",
    }.get(
        loose,
        (
            f"healthy results leave room in {loose} of them; for the others a sharper S, G or u "
            f"would suffice"
        ),
    )
    return f"{cause}; {needs}"


def _group(group: ObservationGroup) -> str:
    return (
        f"{group.kind.operator} · {group.kind.dtype} · {group.kind.direction} · "
        f"{group.kind.backend}"
    )


def _shares(group: ObservationGroup) -> str:
    shares = ((name, group.shares[name]) for name in DECISIVE if name in group.shares)
    return ", ".join(f"{name}: {share.detected} of {share.planted}" for name, share in shares)


def too_tight(groups: Sequence[ObservationGroup], most: int = SHOWN) -> Iterator[str]:
    """The groups in which a healthy result is over budget, with sufficient constants and the worst
    case."""
    if not groups:
        yield "No healthy result is over its budget."
        return
    yield f"{pluralize(len(groups), 'group has', 'groups have')} healthy results over budget:"
    for group in groups[:most]:
        c, lam = group.needed
        yield (
            f"  {group.rule.place}  {_group(group)}   {group.failing} of {group.results} over, "
            f"worst {format_factor(group.rho)} × budget ({group.worst})"
        )
        yield (
            f"      c {group.rule.c:g}, lambda {group.rule.lam:g}; sufficient: c {c:.3g} or "
            f"lambda {lam:.3g}"
        )
    if len(groups) > most:
        yield f"  … and {len(groups) - most} more (--all)"


def nearly(groups: Sequence[ObservationGroup], most: int = SHOWN) -> Iterator[str]:
    """The groups that pass with a narrow margin, which another seed may exceed."""
    if groups:
        passing = pluralize(len(groups), "group passes", "groups pass")
        yield f"{passing} with a margin below {NARROW:g}:"
        for group in groups[:most]:
            bounds = f"c {group.rule.c:g}, lambda {group.rule.lam:g}   margin {group.margin:.2f}"
            yield f"  {group.rule.place}  {_group(group)}   {bounds} ({group.worst})"
        if len(groups) > most:
            yield f"  … and {len(groups) - most} more (--all)"


def problems(calibration: Calibration, most: int = SHOWN) -> Iterator[str]:
    """Healthy results that fail for another reason than their budget."""
    issues = list(calibration.problems())
    if issues:
        yield (
            f"{pluralize(len(issues), 'healthy result fails', 'healthy results fail')} for reasons "
            f"that no c and lambda can fix:"
        )
        for group, case, text in issues[:most]:
            yield printable(f"  {_group(group)}   {case}   {text[:150]}")
        if len(issues) > most:
            yield f"  … and {len(issues) - most} more (--all)"


def proposed(found: Sequence[ToleranceChange], path: str) -> str:
    """The line that summarizes the proposal and names its file."""
    count = Counter(change.reason for change in found)
    if not found:
        return "Nothing to propose."
    words = ", ".join(
        f"{count[reason]} {reason}" for reason in ("too tight", "too loose") if count[reason]
    )
    file_hint = (
        f"written to {path}; try it: consistency run --tolerances {path}"
        if path
        else "--proposal FILE.yaml writes it"
    )
    return f"Other numbers for {words}: {file_hint}"


def noticed(calibration: Calibration) -> str:
    """``Noticed of all planted faults: 16 ulp in one 70%, 16 ulp in all 76%, …``"""
    shares = calibration.shares
    words = ", ".join(f"{fault} {shares[fault].value:.0%}" for fault in FAULTS if fault in shares)
    return f"Noticed of all planted faults: {words or 'none were planted'}"


def rows(calibration: Calibration) -> Iterator[str]:
    """One line with a JSON object per group."""
    for group in calibration.groups.values():
        c, lam = group.needed
        row: dict[str, Any] = {
            "entry": group.rule.place, "operator": group.kind.operator, "family": group.family,
            "dtype": group.kind.dtype,
            "direction": group.kind.direction, "backend": group.kind.backend,
            "stand_in": group.stand_in,
            "results": group.results, "over_budget": group.failing, "c": group.rule.c,
            "lambda": group.rule.lam,
            "rho_max": _json(group.rho), "rho_p99": _json(group.quantile(0.99)),
            "worst": group.worst,
            "margin": _json(group.margin),
            "needed_c": _json(c), "needed_lambda": _json(lam),
            "faults": {name: {"planted": s.planted, "detected": s.detected,
            "hidden_by": dict(s.hidden_by)}
                       for name, s in group.shares.items()},
            "problems": [{"case": case, "text": text} for case, text in group.problems],
        }  # fmt: skip
        yield json.dumps(row)


def _json(value: float) -> float | None:
    """None in place of infinity and NaN, which JSON lacks."""
    return value if math.isfinite(value) else None
