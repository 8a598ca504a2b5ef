"""Frames: the messages through pipes to and from our processes: a mark, two lengths, a JSON header
and raw bytes.

``blobs`` in the header holds the lengths of the byte strings that follow it. This module needs
neither torch nor NumPy.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

_MARK = b"CNS1"
_LENGTHS = struct.Struct("<IQ")
MAX_HEADER = 1 << 26
MAX_BLOBS = 1 << 36

Header = dict[str, Any]
Frame = tuple[Header, list[bytes]]


class WireError(Exception):
    """The data are not a valid frame."""


class CutShortError(WireError):
    """The other end stopped in the middle of a message."""


def packed(header: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """One frame."""
    text = json.dumps({**header, "blobs": [len(blob) for blob in blobs]}).encode("utf-8")
    return b"".join((_MARK, _LENGTHS.pack(len(text), sum(map(len, blobs))), text, *blobs))


def write(stream: BinaryIO, header: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
    """Send one frame. Raises OSError if the other end is closed."""
    stream.write(packed(header, blobs))
    stream.flush()


def read(stream: BinaryIO) -> Frame | None:
    """The next frame, None if the other end is closed. Raises WireError."""
    mark = stream.read(len(_MARK))
    if not mark:
        return None
    if mark != _MARK:
        raise WireError(f"{mark!r} where a message was expected")
    size, blob_sizes = _LENGTHS.unpack(_exactly(stream, _LENGTHS.size))
    if size > MAX_HEADER or blob_sizes > MAX_BLOBS:
        raise WireError(f"a message of {size} + {blob_sizes} bytes")
    try:
        header = json.loads(_exactly(stream, size))
        lengths = [int(n) for n in header["blobs"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WireError(f"not a message: {str(error)[:80]}") from None
    if sum(lengths) != blob_sizes or min(lengths, default=0) < 0:
        raise WireError("the lengths of a message do not add up")
    return header, [_exactly(stream, n) for n in lengths]


def _exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise CutShortError("the other end stopped in the middle of a message")
    return data
