"""Where the choices of a drawn case come from: a random generator, for the cases of a run, or
Hypothesis, which can make a case smaller, for searches and for the tests of users.

Hypothesis takes some 2 ms for a case: it records every choice, and runs mutations of earlier
examples, half of which are repetitions as test data. A random generator takes a twentieth of that,
and what it draws does not depend on the version of Hypothesis.
"""

from __future__ import annotations

import functools
import random
from typing import Any, Protocol

from hypothesis import strategies as st

# Just around powers of two, where vector bodies, tails and blocks begin and end.
INTERESTING = (
    1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511,
    513, 1000, 1024, 2048, 4095,
)  # fmt: skip
_SMALL = 4  # a third of the sizes are at most this much above the least


class Choices(Protocol):
    """What a :class:`.strategies.Draw` asks. The first of several options is the simplest."""

    def integer(self, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        ...

    def size(self, low: int, high: int) -> int:
        """A dimension's size in [low, high], often just around a power of two."""
        ...

    def option(self, options: tuple[Any, ...]) -> Any:
        """One of the options."""
        ...


@functools.lru_cache(maxsize=4096)
def _corners(low: int, high: int) -> tuple[int, ...]:
    return tuple(size for size in INTERESTING if low <= size <= high)


class HypothesisChoices:
    """Choices of one Hypothesis example, which shrink towards the first option and low sizes."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(_integers(low, high))

    def size(self, low: int, high: int) -> int:
        return self._draw(_sizes(low, high))

    def option(self, options: tuple[Any, ...]) -> Any:
        return self._draw(_sampled(options))


@functools.lru_cache(maxsize=4096)
def _integers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


@functools.lru_cache(maxsize=4096)
def _sizes(low: int, high: int) -> st.SearchStrategy[int]:
    small = st.integers(low, min(high, low + _SMALL))
    corners = _corners(low, high)
    return st.one_of(small, st.sampled_from(corners), st.integers(low, high)) if corners else small


_CHOICES: dict[str, st.SearchStrategy[Any]] = {}


def _sampled(options: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    """Cached by repr: a cache that compares would treat (False,) and (0.0,) as equal."""
    spelling = repr(options)
    if spelling not in _CHOICES:
        _CHOICES[spelling] = st.sampled_from(options)
    return _CHOICES[spelling]


class RandomChoices:
    """Choices from a seeded generator, case after case. :meth:`next_case` begins one.

    Only ``random()`` is asked, whose numbers Python promises to keep from version to version. In
    one case of eight, half of the choices repeat the last one of their kind: equal operands, equal
    sizes, and ties are rare among independent choices.
    """

    REPEATING = 8
    _ENDS = 0.05  # of the choices from a long range
    _LONG = 128

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random
        self._last: dict[tuple[Any, ...], int] | None = None

    def next_case(self) -> None:
        """Begin another case."""
        self._last = {} if self._below(self.REPEATING) == 0 else None

    def integer(self, low: int, high: int) -> int:
        if self._last is None:
            return self._fresh_integer(low, high)
        return self._repeated(("integer", low, high), lambda: self._fresh_integer(low, high))

    def size(self, low: int, high: int) -> int:
        if self._last is None:
            return self._fresh_size(low, high)
        return self._repeated(("size", low, high), lambda: self._fresh_size(low, high))

    def option(self, options: tuple[Any, ...]) -> Any:
        return options[self._below(len(options))]

    def _repeated(self, kind: tuple[Any, ...], fresh: Any) -> int:
        assert self._last is not None
        if kind in self._last and self._random() < 0.5:
            return self._last[kind]
        value: int = fresh()
        self._last[kind] = value
        return value

    def _fresh_integer(self, low: int, high: int) -> int:
        if high - low >= self._LONG and self._random() < self._ENDS:
            return (low, low + 1, high - 1, high)[self._below(4)]
        return low + self._below(high - low + 1)

    def _fresh_size(self, low: int, high: int) -> int:
        corners = _corners(low, high)
        kind = self._below(3) if corners else 0
        if kind == 1:
            return corners[self._below(len(corners))]
        return low + self._below((min(high, low + _SMALL) if kind == 0 else high) - low + 1)

    def _below(self, count: int) -> int:
        return int(self._random() * count)
