"""What is news of the matrix for other programs: a badge (SVG) and a feed (Atom)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
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


def feed(latest: Mapping[str, Any]) -> str:
    """The events of the latest runs as an Atom feed. An entry keeps its identity while it is told,
    so that readers show it once; links are relative to the feed."""
    night = str(latest["night"])
    updated = f"{night if _DATE.fullmatch(night) else '1970-01-01'}T00:00:00Z"
    entries = "".join(list(_entries(latest, updated))[:MAX_ENTRIES])
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n'
        f"<title>consistency</title>\n<subtitle>{_text(latest['summary'])}</subtitle>\n"
        f"<id>{_identity('feed')}</id>\n<updated>{updated}</updated>\n"
        f"<author><name>consistency</name></author>\n{entries}</feed>\n"
    )


def _entries(latest: Mapping[str, Any], updated: str) -> Iterator[str]:
    for row in latest["troubled"]:
        title = f"{row['name']}: {row['words']}, since {row['since']}"
        yield _entry(title, "latest.html", str(row["why"]), updated, "troubled", row["since"])
    for part in latest["parts"]:
        for row in part["rows"]:
            where = f"{row['operator']} · {row['kind']} · {row['environment']}"
            told = [f"{row['numbers']} × budget", row["age"], row["cause"], row["why"]]
            yield _entry(
                f"{part['mark']} {part['title']}: {where}", row["file"] or "latest.html",
                " · ".join(str(text) for text in told if text), updated, str(part["kind"]), where,
            )  # fmt: skip


def _entry(title: str, link: str, text: str, updated: str, *identity: str) -> str:
    return (
        f"<entry>\n<title>{_text(title)}</title>\n<link href={quoteattr(link)}/>\n"
        f"<id>{_identity(updated, *identity)}</id>\n<updated>{updated}</updated>\n"
        f"<summary>{_text(text)}</summary>\n</entry>\n"
    )


def _text(value: object) -> str:
    """Untrusted text for XML: one printable line, escaped."""
    return escape(one_line(str(value), 600))


def _identity(*parts: str) -> str:
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return f"urn:sha256:{digest[:32]}"
