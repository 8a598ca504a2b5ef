"""Text from elsewhere: what may be printed, how much of it, and what stays as it is."""

from __future__ import annotations

import json
import math
import unicodedata

import pytest

from consistency.core.text import MAX_MESSAGE, MAX_SHOWN, abridged, one_line, printable, shown
from consistency.errors import MAX_LINE, BundleError, ConfigurationError

ATTACKS = {
    "color": "\x1b[31mred\x1b[0m",
    "title of the window": "\x1b]0;title\x07",
    "link": "\x1b]8;;https://example.org\x1b\\here",
    "C1": "\x9b31m\x85\x90",
    "cursor": "a\rb\x08\x7fc",
    "direction": "\u202egnp.exe\u2066\u2069\u200f",
    "no room": "a\u200bb\u2060\ufeff\u00ad",
    "joiner among letters": "a\u200db",
    "lines": "a\nfake line\r\n\u2028\u2029\x0b\x0c\x1cb",
    "half a character": "\ud800 \udfff",
    "NUL": "a\x00b",
}
HEALTHY = (
    "µ × Ω ≤ ½ ⁄ – … ✓ ✗", "ἀλήθεια", "日本語の名前", "한국어", "שלום", "é e\u0301", "a\xa0b",
    "😀 👍🏽 ❤️", "👩\u200d💻 👨\u200d👩\u200d👧", "C:\\x\\y `a` <b> | c",
)  # fmt: skip


@pytest.mark.parametrize("text", ATTACKS.values(), ids=list(ATTACKS))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    for safe in (one_line(text), one_line(f"µ {text} ×"), shown(text), str(BundleError(text))):
        assert not [c for c in safe.replace("\n", "") if unicodedata.category(c)[0] == "C"]
        safe.encode("utf-8")
    assert len(one_line(text).splitlines()) <= 1
    assert len(printable(text).split("\n")) == text.count("\n") + 1  # its own lines only


@pytest.mark.parametrize("text", HEALTHY)
def test_healthy_text_stays(text: str) -> None:
    assert one_line(text) == printable(text) == text


def test_a_value_takes_little_room() -> None:
    values = (
        "x" * 200_000, ["x" * 200_000] * 1000, {"x" * 9999: 1}, 10**4000, -(10**4000), b"x" * 9999,
        [[[[[[[[1]]]]]]]], None, True, 1.5, math.nan, "µ", json.loads("[" * 500 + "]" * 500),
    )  # fmt: skip
    for value in values:
        assert len(shown(value)) <= MAX_SHOWN
        assert shown(value).isprintable()
    assert shown("µ") == "'µ'"
    assert shown(["a", 1]) == "['a', 1]"
    assert shown("abc", 3) == "'abc'"[:2] + "…"


def test_the_middle_of_a_long_text_is_left_out() -> None:
    text = "begin " + "x" * 5_000_000 + " end"
    cut = abridged(text)
    assert len(cut) < MAX_MESSAGE + 60
    assert cut.startswith("begin x")
    assert cut.endswith("x end")
    assert f"… ({len(text) - MAX_MESSAGE:,} characters left out) …" in cut
    assert abridged("x" * MAX_MESSAGE) == "x" * MAX_MESSAGE
    assert abridged("µ\n日本") == "µ\n日本"


def test_an_error_is_short_whatever_is_in_it() -> None:
    text = str(ConfigurationError(f"first: {'x' * 200_000}\nsecond"))  # one line per mistake
    first, second = text.split("\n")
    assert len(first) < MAX_LINE + 60
    assert "characters left out" in first
    assert second == "second"
    assert str(BundleError("a\nb")) == "a b"
    assert str(BundleError("µ × 日本")) == "µ × 日本"
