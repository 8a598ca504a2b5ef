"""Results in a notebook: the card of the report as HTML that needs no style sheet and no script,
and takes the colors of the page around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ..core.model import Result
from ..core.text import one_line, pluralize
from ..engine.result_collector import Run
from .failure import dtype_of, size_of, split_headline, values_of
from .one_fault import different
from .rerun_hint import rerun_hint
from .summary import RunSummary

MAX_CARDS = 5
_BOX = (
    "border:1px solid; border-left:4px solid {color}; border-radius:4px; padding:8px 12px; "
    "margin:6px 0; font-family:system-ui,sans-serif; font-size:14px; overflow-wrap:anywhere"
)
_MONO = "margin:0; font:13px monospace; white-space:pre-wrap; background:none; color:inherit"
_RED, _GREEN = "#c2301f", "#2c8a55"


def card(
    bad: bool, title: str, lines: Iterable[str] = (), facts: Sequence[tuple[str, str]] = ()
) -> str:
    """A box with a title, lines of monospaced text, and named facts. All text is escaped."""
    rows = "".join(
        f'<div><span style="opacity:0.7">{escape(name)}:</span> {escape(one_line(text))}</div>'
        for name, text in facts
        if text
    )
    text = "\n".join(escape(one_line(line)) for line in lines)
    body = f'<pre style="{_MONO}">{text}</pre>' if text else ""
    color = _RED if bad else _GREEN
    mark = "✗" if bad else "✓"
    head = f'<div><b><span style="color:{color}">{mark}</span> {escape(one_line(title))}</b></div>'
    return f'<div style="{_BOX.format(color=color)}">{head}{rows}{body}</div>'


def result_html(result: Result) -> str:
    """The card of one result: its size, cause and cure, the worst element, and how to repeat it."""
    evidence = result.evidence
    cause = evidence.cause if evidence is not None else None
    return _failure_card(result, str(cause) if cause is not None else "")


def _failure_card(result: Result, cause: str, cases: int = 1) -> str:
    """``cause`` in words, that of ``cases`` cases which fail alike."""
    size, words = split_headline(result)
    where = f"{result.operator} · {result.dtype} · {result.direction} · {result.backend}"
    verdict, worst = result.verdict.value, result.worst
    facts = [
        ("verdict", verdict if cause or words == verdict else f"{verdict}: {words}"),
        ("cause", cause),
        ("cure", result.workaround),
        ("size", "; ".join(map(str.strip, size_of(result))) if result.verdict.fails else ""),
    ]
    if worst is not None:
        at = f"at {worst.index} of {result.output}: " if worst.index else ""
        facts.append(("worst", at + values_of(worst, dtype_of(result))))
    facts.append(("failing cases", f"{cases:,}" if cases > 1 else ""))
    again = [line.strip() for line in rerun_hint(result, "result")] if result.verdict.fails else []
    return card(result.verdict.fails, f"{where} · {size}", again, facts)


def run_html(run: Run) -> str:
    """What a run found: the number of results of each verdict, and a card for each of the first
    faults, those of an operator on a backend with one cause."""
    summary = RunSummary()
    for result in run.results:
        summary.add(result)
    told = " · ".join(f"{count:,} {verdict}" for verdict, count in sorted(summary.verdicts.items()))
    failing = len(run.failures)
    title = (
        f"{pluralize(failing, 'result')} of {len(run.results):,} "
        f"{'fails' if failing == 1 else 'fail'}"
        if failing
        else f"{pluralize(len(run.results), 'result')}, none fails"
    )
    faults = [group for groups in summary.by_operator() for group in different(groups)]
    more = len(faults) - MAX_CARDS
    return (
        card(bool(failing), title, (), [("verdicts", told), ("bundle", str(run.out or ""))])
        + "".join(_failure_card(g.headed, str(g.elected), g.cases) for g in faults[:MAX_CARDS])
        + (f"<div>and {pluralize(more, 'more fault')}: run.failures</div>" if more > 0 else "")
    )
