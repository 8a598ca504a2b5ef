"""What is news of the matrix for other programs: a badge (SVG) and a feed (Atom)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from ...core.text import one_line

BADGE, FEED = "badge.svg", "feed.xml"
MAX_ENTRIES = 100
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_WIDTH = 6.6  # of a character at 11 px, roughly
_GREEN, _RED, _GRAY = "#1b6e3f", "#b3241a", "#565d67"


def badge(latest: Mapping[str, Any]) -> str:
    """``consistency | 3 fail, 1 new``: an image for a README. ``latest``: the values of the page of
    the latest runs."""
    failing = int(latest["failing"])
    fresh = sum(part["count"] for part in latest["parts"] if part["kind"] == "new")
    words, color = ("passes", _GREEN) if latest["good"] else (f"{failing:,} fail", _GRAY)
    if latest["bad"]:
        words, color = f"{failing:,} fail" + (f", {fresh:,} new" if fresh else ""), _RED
    if not latest["night"]:
        words, color = "no run", _GRAY
    name = "consistency"
    left, right = (round(_WIDTH * len(text)) + 12 for text in (name, words))
    title = f"{name}: {words}" + (f", {latest['night']}" if latest["night"] else "")
    style = 'font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" fill="#fff"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f"aria-label={quoteattr(title)}><title>{escape(title)}</title>"
        f'<rect width="{left}" height="20" fill="#3a4048"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{color}"/>'
        f'<g {style} text-anchor="middle"><text x="{left / 2:g}" y="14">{name}</text>'
        f'<text x="{left + right / 2:g}" y="14">{escape(words)}</text></g></svg>\n'
    )


def feed(latest: Mapping[str, Any], earlier: Iterable[Mapping[str, Any]] = ()) -> str:
    """The events of the latest runs, then those of ``earlier`` nights (rows with ``event``, newest
    first), as an Atom feed of at most 100 entries. An entry has the night of its event and keeps
    its identity, so that readers show it once; links are relative to the feed."""
    entries = [*_entries(latest), *(_event(row["event"], row) for row in earlier)]
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n'
        f"<title>consistency</title>\n<subtitle>{_text(latest['summary'])}</subtitle>\n"
        f"<id>{_identity('feed')}</id>\n<updated>{_time_of(latest['night'])}</updated>\n"
        f"<author><name>consistency</name></author>\n{''.join(entries[:MAX_ENTRIES])}</feed>\n"
    )


def _entries(latest: Mapping[str, Any]) -> Iterator[str]:
    for row in latest["troubled"]:
        title = f"{row['name']}: {row['words']}, since {row['since']}"
        yield _entry(title, "latest.html", str(row["why"]), row["since"], "troubled", row["name"])
    for part in latest["parts"]:
        for row in part["rows"]:
            yield _event(part, row)


def _event(event: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """``event``: its kind, title and mark."""
    where = f"{row['operator']} · {row['kind']} · {row['environment']}"
    told = [f"{row['numbers']} × budget", row["age"], row["cause"], row["why"]]
    return _entry(
        f"{event['mark']} {event['title']}: {where}", row["file"] or "latest.html",
        " · ".join(str(text) for text in told if text), row["night"], str(event["kind"]), where,
    )  # fmt: skip


def _time_of(night: object) -> str:
    """The midnight before a night's run, as Atom writes times."""
    found = _DATE.match(str(night))
    return f"{found[0] if found else '1970-01-01'}T00:00:00Z"


def _entry(title: str, link: str, text: str, night: object, *identity: str) -> str:
    return (
        f"<entry>\n<title>{_text(title)}</title>\n<link href={quoteattr(link)}/>\n"
        f"<id>{_identity(str(night), *identity)}</id>\n<updated>{_time_of(night)}</updated>\n"
        f"<summary>{_text(text)}</summary>\n</entry>\n"
    )


def _text(value: object) -> str:
    """Untrusted text for XML: one printable line, escaped."""
    return escape(one_line(str(value), 600))


def _identity(*parts: str) -> str:
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return f"urn:sha256:{digest[:32]}"
