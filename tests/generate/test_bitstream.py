"""The tape: the same words for ever, the same window however it is reached."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency.generate import bitstream

CACHED = bitstream._CACHED
FIRST = [
    0x82282A2446CCB175, 0xC669CCE32B2837A4, 0xAE3D42E236EB8DC7, 0x0135D9FC30B018F7,
    0xCDAC284A6EBC2730,
]  # fmt: skip
# The last two words of a window that ends there: recipes in the wild depend on every bit of them.
GOLDEN = {
    CACHED - 1: (0x9E5FFDE5FFC5D994, 0x2521D74E6EA31249),
    CACHED + 3: (0xFE2525493E093382, 0xAC0B3D936B5A5CF6),
    10**6: (0x4330BE73232D891D, 0x34D1545171E9E517),
    10**9: (0xAFE773BBC3345676, 0x838EE20FA31B8DC2),
    1 << 40: (0x382064910599831C, 0xF6C489E7B6571219),
}


def words(n: int, stop: int) -> list[int]:
    """The window as whole numbers, None for blanks."""
    bits, blanks = bitstream.window(n, stop)
    assert bits.dtype == np.uint64
    assert bits.size + blanks == n
    return [None] * blanks + bits.tolist()


def test_the_first_words() -> None:
    assert words(5, 5) == FIRST


@pytest.mark.parametrize("stop", GOLDEN)
def test_words_far_along(stop: int) -> None:
    assert tuple(words(2, stop)) == GOLDEN[stop]


def test_positions_up_to_zero_are_blank() -> None:
    assert words(4, 2) == [None, None, *FIRST[:2]]
    assert words(3, 0) == words(3, -7) == [None] * 3
    assert words(0, 5) == words(0, 0) == []


@given(
    st.integers(0, 40),
    st.one_of(st.integers(-5, 60), st.integers(CACHED - 50, CACHED + 50), st.integers(0, 1 << 40)),
)
def test_a_window_is_made_of_single_elements(n: int, stop: int) -> None:
    """However it is reached: from the cache, beyond it, or across its end."""
    assert words(n, stop) == [words(1, p)[0] for p in range(stop - n + 1, stop + 1)]


@given(st.integers(1, 40), st.integers(-5, 60), st.integers(0, 30))
def test_lowering_stop_slides_the_window(n: int, stop: int, by: int) -> None:
    """What was at the front moves towards the end, and blanks or earlier elements follow."""
    kept = max(n - by, 0)
    assert words(n, stop - by)[n - kept :] == words(n, stop)[:kept]


@given(st.integers(0, 40), st.integers(0, 60), st.integers(0, 40))
def test_a_shorter_window_is_the_end_of_a_longer_one(n: int, stop: int, more: int) -> None:
    assert words(n + more, stop)[more:] == words(n, stop)


def test_the_cache_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stops = (1, 7, 5000, 20_000, CACHED - 1, CACHED, CACHED + 1)
    warm = [words(9, stop) for stop in stops]
    for cached in (0, CACHED):
        monkeypatch.setattr(bitstream, "_CACHED", cached)
        monkeypatch.setattr(bitstream, "_head", np.empty(0, dtype=np.uint64))
        assert [words(9, stop) for stop in stops] == warm


def test_nobody_can_write_on_the_tape() -> None:
    bits, _ = bitstream.window(4, 100)
    with pytest.raises(ValueError, match="read-only"):
        bits[0] = 0


def test_a_window_far_along_costs_no_more_than_its_length() -> None:
    bits, _ = bitstream.window(3, 1 << 40)
    assert bits.size == 3
    assert bits.base is None or bits.base.size < 16
