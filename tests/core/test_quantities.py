"""Times and sizes as people write them."""

from __future__ import annotations

import pytest

from consistency.core.quantities import seconds_of, size_in_bytes
from consistency.errors import UsageError


def test_times_are_in_seconds() -> None:
    assert [seconds_of(t) for t in ("90s", "5m", "2 h", "7", "1.5min")] == [90, 300, 7200, 7, 90]


@pytest.mark.parametrize("text", ["soon", "", "5 days", "-1s", "1h30m", "٣s x"])
def test_what_is_no_time_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time; write 90s, 5m or 2h"):
        seconds_of(text)


def test_sizes_are_in_bytes() -> None:
    assert size_in_bytes("8G") == size_in_bytes("8GiB") == 8 << 30
    assert size_in_bytes("512mb") == 512 << 20
    with pytest.raises(UsageError, match="is no size of a megabyte or more"):
        size_in_bytes("12k")
