"""Values, texts and names that a reader of JSON does not expect."""

from __future__ import annotations

import functools
import json
import random
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, strategies

# Texts that are no JSON, or whose value exceeds what Python, a float or the stack can hold.
RAW = (
    "1e999", "-1e999", "NaN", "-Infinity", "1" * 5000, "-0", "01", "0x10", "1e-400", '"\\ud800"',
    '"\\u0000"', '"\\u001b[2J"', "[" * 2000 + "]" * 2000, '{"a":' * 1500 + "1" + "}" * 1500,
    "[" * 100_000, "'a'", "undefined", "", "{}{}", '"unended', "1 2", "// x", "\x00", "\ufeff{}",
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 7, 255, 256, 2**15, 2**28, 2**31 - 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**62,
    2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, 10**400, -(10**400), 0.5, -0.0, 1e-320, 1e308,
    float("nan"), float("inf"), float("-inf"), 3.999999999999999999, True, False, None,
)  # fmt: skip
# Of files, cases and operators: upwards, absolute, devices of Windows, streams, patterns.
NAMES = (
    "../victim.txt", "../../beside/victim.txt", "/etc/passwd", "/dev/zero", "/dev/stdin",
    "/proc/self/mem", "..", ".", "", " ", "~/victim.txt", "CON", "NUL", "aux.json", "COM1", "a:b",
    "C:\\Windows\\win.ini", "\\\\host\\share", "a\\..\\b", "file:///etc/passwd", "a/b", "a\x00b",
    "*", "-rf", "--out=/tmp/x", "a" * 300, "é" * 200, "evil.py:backend", "evil:backend",
    "cpu@./evil.sh", "numpy@./evil.sh", "cpu@/bin/sh", "cuda", "directml", "x.py:y",
    "cpu+env:PATH=/tmp", "cpu+isolated", "os:system", "__import__('os').system('id')",
    "{0.__class__}", "%(x)s", "%s%n",
    "$(id)", "`id`", "'; id; '", '" onerror="1', "'); DROP TABLE results; --",
)  # fmt: skip
TEXTS = (
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x1b]8;;http://example.org\x07x\x1b]8;;\x07",
    "\x9b31m", "\x07\x08\x7f", "\r\n overwritten \r", "\u202e\u2066gnp.exe", "\u2028\u2029",
    "\ud800", "\udfff\ud800", "\ufffe\uffff", "\x00", "</script><script>x=1</script>",
    "{{ 7 * 7 }}", "{% include 'x' %}", "[bold]x[/bold]", "[/]", "[link=x]", "e\u0301" * 50,
    "\U0001f4a9" * 30, "a" * 10_000, "a" * 200_000, "a b" * 70_000, "\n" * 5000, "(" * 3000,
    "<" * 30_000, "::error::x", "@all", "|" * 400, "0" * 5000, "1e400", "nan", "-", "9" * 400,
)  # fmt: skip


@functools.cache
def json_values() -> tuple[Any, ...]:
    """A few hundred JSON values of any structure, always the same."""
    found: list[Any] = []
    characters = strategies.characters(exclude_categories=())  # lone surrogates, too
    scalars = (
        strategies.none()
        | strategies.booleans()
        | strategies.integers()
        | strategies.floats()
        | strategies.text(characters, max_size=20)
    )
    values = strategies.recursive(
        scalars,
        lambda inner: (
            strategies.lists(inner, max_size=5)
            | strategies.dictionaries(strategies.text(characters, max_size=6), inner, max_size=4)
        ),
        max_leaves=12,
    )

    @hypothesis.settings(
        max_examples=400,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(values)
    def collect(value: Any) -> None:
        found.append(value)

    collect()
    return tuple(found)


class Raw:
    """Text that stands in a document as it is, where a value should be."""

    def __init__(self, text: str) -> None:
        self.text = text


def value(chosen: random.Random, before: Any = None) -> Any:
    """A value in place of ``before``: near it, of another type, or of any kind."""
    kind = chosen.random()
    if kind < 0.12 and isinstance(before, (int, float)):
        return _near(chosen, before)
    if kind < 0.30:
        return chosen.choice(NUMBERS)
    if kind < 0.45:
        return chosen.choice(NAMES)
    if kind < 0.60:
        return _inserted(chosen, before, chosen.choice(TEXTS))
    if kind < 0.68:
        return Raw(chosen.choice(RAW))
    if kind < 0.80:
        return chosen.choice(
            [[], {}, [before], {"": before}, [[before]], [None], str(before), [before] * 1000]
        )
    return chosen.choice(json_values())


def _near(chosen: random.Random, number: float) -> Any:
    options = [lambda: number + 1, lambda: number - 1, lambda: -number, lambda: number * 1000]
    options += [lambda: float(number), lambda: number * 2**40, lambda: str(number)]
    try:
        return chosen.choice(options)()
    except OverflowError:
        return 10**400


def _inserted(chosen: random.Random, before: Any, text: str) -> str:
    if not isinstance(before, str) or chosen.random() < 0.5:
        return text
    place = chosen.randint(0, len(before))
    return before[:place] + text + before[place:]


def dumped(document: Any, chosen: random.Random) -> bytes:
    """JSON as bytes; :class:`Raw` parts stand in it as they are."""
    parts: list[str] = []

    def default(part: Any) -> str:
        parts.append(part.text)
        return f"@raw {len(parts) - 1}@"

    text = json.dumps(document, default=default, ensure_ascii=chosen.random() < 0.7)
    for number, part in enumerate(parts):
        text = text.replace(f'"@raw {number}@"', part)
    return text.encode("utf-8", "surrogatepass")
