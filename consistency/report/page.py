"""One self-contained HTML page of a bundle, without network access or libraries; its script draws
from one block of JSON.

Everything from the bundle is escaped: by Jinja in text, by
:func:`~consistency.report.page_parts.embed_json` in JSON, and the script inserts it as text only. A
content security policy admits only the page's own style and script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.files import write_named, write_text
from ..core.output import writing
from ..core.text import format_seconds, one_line, pluralize, quote
from ..diagnose import determinism
from ..engine.events import Event, Finished, Handler
from ..engine.known import standing
from ..storage.bundle.naming import PAGE
from . import bundle_view, failure
from .bundle_view import BundleView, read
from .failure_groups import FailureGroup
from .groups import RANKS
from .last_run import changes_since_last
from .page_data import data
from .page_parts import embed_json, join_scripts, policy_of, source
from .run_notes import notes, repeated

# Size of a page in bytes, for up to MANY results and for more.
ROOM, ROOM_FOR_MANY, MANY = 1_400_000, 2_800_000, 20_000
SCRIPTS = (
    "page.js",
    "common.js",
    "filters.js",
    "map.js",
    "list.js",
    "pictures.js",
    "cases.js",
    "start.js",
)
FIRST = 6  # operators named at the top of the page
LONGEST_COMMAND = 1_500  # characters


def write(folder: Path, path: Path | None = None) -> Path:
    """Read a bundle and write its page: ``report.html`` in it, or ``path``. Raises BundleError,
    and OutputError if it cannot be written."""
    html = page(read(folder), linked=path is None)
    with writing(path or folder / PAGE, remedy="name another file with -o"):
        write_text(folder / PAGE, html) if path is None else write_named(path, html)
    return path or folder / PAGE


def after(folder: Path) -> Handler:
    """A handler that writes the page when the run ends; it must follow the bundle's own handler."""

    def finish(event: Event) -> None:
        if isinstance(event, Finished):
            path, again = folder / PAGE, f"`consistency report {quote(str(folder))}`"
            with writing(path, "the bundle is complete without it", f"write it with {again}"):
                try:
                    html = page(read(folder), linked=True)
                except Exception as error:  # must not affect the run's verdict
                    write_text(folder / "report.txt", f"no page: {error}\n")
                else:
                    write_text(path, html)

    return finish


def page(view: BundleView, *, linked: bool = False) -> str:
    """The page as text. ``linked``: it lies in the bundle, to whose files it links, and compares
    it with the run before in the same folder."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    view.read_worst_failures(1)
    room = ROOM if view.summary.results <= MANY else ROOM_FOR_MANY
    since = changes_since_last(view) if linked else None
    templates = Environment(
        loader=PackageLoader("consistency.report"), autoescape=True, undefined=StrictUndefined
    )
    style, script = source("report.css"), join_scripts(*map(source, SCRIPTS))
    return templates.get_template("report.html").render(
        style=style, script=script, policy=policy_of(style, script), data=embed_json(data(view,
        room) | {"linked": linked}), strip=_strip(view),
        **_about(view), failing=_failing(view), notes=_notes(view), since=since,
        news=list(standing.told(view.summary.standings)),
        known=list(standing.counted(view.summary.standings)),
        environments=compared(view.environment, view.backends),
        fingerprints=compared(view.fingerprints, view.backends),
        reasons=_reasons(view), unavailable=view.unavailable,
        rates=view.summary.inconclusive_rates()[:12],
    )  # fmt: skip


# --- what the template shows


def _about(view: BundleView) -> dict[str, Any]:
    header, settings, summary = view.header, view.settings, view.summary
    torch = next((keys["torch"] for keys in view.environment.values() if keys.get("torch")), "")
    facts = [
        str(header.get("created", ""))[:16].replace("T", " "), torch and f"torch {torch}",
        pluralize(summary.results, "result"),
        pluralize(len(view.groups.families), "operator"),
        *(view.corpus_lines or [f"seed {settings.get('seed')}"]),
        "the run did not end" if view.seconds is None else format_seconds(view.seconds),
        "" if header.get("complete", True) else "time budget used up",
    ]  # fmt: skip
    return {"facts": [one_line(fact) for fact in facts if fact], "summary": _summary(view),
    "not_whole": view.not_whole,
    "name": one_line(view.folder.name),
            "failed": bool(summary.groups["failed"])}  # fmt: skip


def _summary(view: BundleView) -> str:
    """The result of the run in one sentence."""
    summary, failing = view.summary, view.summary.by_operator()
    if failing:
        worst = failing[0][0]
        failing_count = (
            f"{len(failing):,} operator{'s' if len(failing) > 1 else ''} "
            f"fail{'' if len(failing) > 1 else 's'}"
        )
        return f"{failing_count}: the worst is {worst.operator} on {worst.backend}"
    good, warned = summary.groups["passed"], summary.groups["warned"]
    if not good and not warned:
        return "Nothing was tested"
    return f"Nothing fails{' so far' if view.not_whole else ''}" + (
        f", {warned:,} results are known or ill-conditioned" if warned else ""
    )


def _strip(view: BundleView) -> list[dict[str, Any]]:
    """The verdicts with their counts, the failing ones first, and their positions on a strip of
    1,000 units."""
    counts: dict[tuple[str, str], int] = {}
    for group in view.groups:
        for key, count in group.verdicts.items():
            counts[key] = counts.get(key, 0) + count
    order = {name: rank for rank, name in enumerate(reversed(RANKS))} | {"not tested": len(RANKS)}
    rows = sorted(counts.items(), key=lambda item: (order[item[0][1]], -item[1]))
    total, start, strip = max(sum(counts.values()), 1), 0.0, []
    for (verdict, rank), count in rows:
        width = 1000.0 * count / total
        strip.append(
            {
                "verdict": verdict,
                "rank": rank,
                "count": count,
                "x": f"{start:.2f}",
                "width": f"{max(width, 1.5):.2f}",
            }
        )
        start += width
    return strip


def _failing(view: BundleView) -> dict[str, Any]:
    """The worst failure of the worst operators, and the number of other operators."""
    failing = view.summary.by_operator()
    rows = [_headline(groups[0]) for groups in failing[1:FIRST]]
    card = _card(view, failing[0]) if failing else None
    return {"card": card, "rows": rows, "more": max(len(failing) - FIRST, 0)}


def _card(view: BundleView, groups: Sequence[FailureGroup]) -> dict[str, Any]:
    """The worst failure in full: its drawn case, the smallest one, and the operator's other
    faults."""
    group = groups[0]
    result, shown = group.headed, group.shown
    command = failure.command(
        shown, bundle=view.folder, spec=view.specs.get(bundle_view.short(shown.backend))
    )
    facts = [("cause", str(group.elected)), ("work-around", result.workaround)]
    if group.smallest is not None:
        size, sentence = failure.split_headline(group.smallest)
        has_number = size != group.smallest.verdict.value
        facts.append(("smallest case", size if has_number else sentence.partition(": ")[0]))
    facts += [line.strip().partition(": ")[::2] for line in failure.details(shown)]
    if len(command) > LONGEST_COMMAND:
        command = command.replace(quote(shown.case.line), shown.case.id)
    facts += [
        (f"also on {one.backend}", str(one.elected) or one.worst.verdict.value)
        for one in groups[1:5]
    ]
    return _headline(group) | {
        "cases": group.cases,
        "facts": [(one_line(name), one_line(text, 600)) for name, text in facts if text],
        "command": one_line(command, 2 * LONGEST_COMMAND),
    }


def _headline(group: FailureGroup) -> dict[str, str]:
    size, sentence = failure.split_headline(group.headed)
    key = group.keys[0]
    texts = {
        "size": size.removesuffix(" budget"), "operator": group.operator,
        "where": f"{key.dtype} · {key.pool[2]} · {group.backend}",
        "text": str(group.elected) or sentence,
    }  # fmt: skip
    return {name: one_line(text, 2000) for name, text in texts.items()}


def compared(found: Mapping[str, Mapping[str, str]], order: Sequence[str]) -> dict[str, Any]:
    """Facts by key for all backends: ``differing`` ones with all values, ``equal`` ones with their
    common value."""
    names = [name for name in order if name in found] + [
        name for name in found if name not in order
    ]
    keys = dict.fromkeys(key for name in names for key in found[name])
    differing, equal = [], []
    for key in keys:
        values = [found[name].get(key, "") for name in names]
        if len(set(values)) == 1:
            equal.append((key, values[0]))
        else:
            differing.append(
                (
                    key,
                    [(value, values.count(value) == 1) for value in values],
                    len(set(filter(None, values))) > 1,
                )
            )
    differing.sort(key=lambda row: not row[2])
    return {"backends": names, "differing": differing, "equal": equal}


def _notes(view: BundleView) -> list[str]:
    repeated_lines = repeated(view.summary)
    shown_separately = (
        determinism.TITLE,
        view.summary.inconclusive_shares(),
    )  # the page shows the second one with the untested results
    return [
        line.strip()
        for line in (*notes(view.summary), *repeated_lines)
        if line not in shown_separately
    ]


def _reasons(view: BundleView) -> dict[str, Any]:
    """The reasons why something was not tested, the most frequent first, with a count for each
    backend that has any."""
    table: dict[tuple[str, str], dict[str, int]] = {}
    for (verdict, backend, reason), count in view.summary.reasons.most_common():
        table.setdefault((verdict, reason), {})[backend] = count
    counted = [(sum(counts.values()), *key, counts) for key, counts in table.items()]
    counted.sort(key=lambda row: -row[0])
    names = [name for name in view.backends if any(name in row[3] for row in counted)]
    rows = [
        (verdict, reason, [counts.get(name, 0) for name in names])
        for _, verdict, reason, counts in counted[:60]
    ]
    return {"backends": names, "rows": rows}
