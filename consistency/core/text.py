"""Text for people: safe on a terminal and in a shell; numbers that are easy to read."""

from __future__ import annotations

import math
import os
import re
import reprlib
import shlex

MAX_SHOWN = 80  # characters of a value in an error's line
MAX_REPR = 200  # characters of the one line that stands for a value
MAX_MESSAGE = 4096  # characters kept of an exception's text
_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxlist, _REPR.maxtuple, _REPR.maxdict = 3, 4, 4, 4
_REPR.maxstring = _REPR.maxother = MAX_SHOWN
_EMOJI = "[\u2190-\u2bff\ufe0f\U0001f000-\U0001faff]"
_JOINED = re.compile(f"(?<={_EMOJI})\u200d(?={_EMOJI})")  # one symbol made of several


def printable(text: str) -> str:
    """``text`` without characters that move a terminal's cursor, color it, change the direction of
    writing, take no room or break its encoding; line breaks stay."""
    if text.isprintable():
        return text
    return "\u200d".join(map(_printable, _JOINED.split(text)))


def _printable(text: str) -> str:
    return "".join(
        c
        if c.isprintable() or c in "\n\xa0"
        else " "
        if c.isspace()
        else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )


def one_line(text: str, limit: int = 0) -> str:
    """``text`` as one printable line, of at most ``limit`` characters if that is not 0: what a
    field of a file may put into a line of ours."""
    text = f"{text[: limit - 1]}…" if 0 < limit < len(text) else text
    return text if text.isprintable() else printable(" ".join(text.splitlines()))


def abridged(text: str, limit: int = MAX_MESSAGE) -> str:
    """``text`` without lone surrogates; of more than ``limit`` characters the middle is left out,
    and how many characters these are stands there."""
    left_out = len(text) - limit
    if left_out > 0:
        end = limit // 4
        text = f"{text[: limit - end]}\n… ({left_out:,} characters left out) …\n{text[-end:]}"
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def shown(value: object, limit: int = MAX_SHOWN) -> str:
    """``repr`` of a value for the line of an error: printable and of at most ``limit`` characters;
    of a longer one the beginning."""
    if isinstance(value, (str, bytes)):
        words, cut = repr(value[:limit]), len(value) > limit
    elif isinstance(value, int) and value.bit_length() > 4 * limit:
        return f"a number of {value.bit_length():,} bits"
    else:
        words, cut = _REPR.repr(value), False
    words = one_line(words)
    return f"{words[: limit - 1].rstrip()}…" if cut or len(words) > limit else words


def quote(text: str) -> str:
    """``text`` as one argument of this platform's usual shell."""
    if os.name != "nt":
        return shlex.quote(text)
    return (
        text if text and not set(text) & set(' "&|<>^%') else '"' + text.replace('"', '\\"') + '"'
    )


def format_factor(value: float) -> str:
    """A ratio: ``0.31``, ``1.02``, ``12``, ``1,400``, ``over 1,000,000``; ``–`` for NaN."""
    if math.isnan(value) or value == -math.inf:
        return "–"
    if value >= 1e6:
        return "over 1,000,000"
    if 1.0 < value < 1.05:  # two digits would round it to 1, which looks like within budget
        return f"{value:.3g}" if value > 1.005 else "just over 1"
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def format_percent(share: float) -> str:
    """``12%``; below one percent two digits: ``0.034%``."""
    return f"{share:.0%}" if share >= 0.01 else f"{100.0 * share:.2g}%"


def format_seconds(seconds: float) -> str:
    """``0.4 s``, ``12.3 s``, ``1,234 s``."""
    return f"{seconds:.1f} s" if seconds < 100.0 else f"{seconds:,.0f} s"


def format_bytes(size: float) -> str:
    """Decimal, as disks and networks count: ``1.2 kB``, ``64.0 MB``, ``3.5 GB``."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6)):
        if size >= 0.1 * scale:
            return f"{size / scale:,.1f} {unit}"
    return f"{size / 1e3:,.1f} kB"


def pluralize(count: int, singular: str, plural: str = "") -> str:
    """``1 case``, ``1,200 cases``; ``plural`` if it is not the singular with an s."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def round_significant(value: float | None, digits: int) -> float | int | None:
    """A number for JSON with this many significant digits, integers as such, None for NaN."""
    if value is None or math.isnan(value):
        return None
    short = float(f"{min(max(value, -1e300), 1e300):.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
