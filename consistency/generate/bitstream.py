"""The bitstream: one fixed, endless row of random bits that every case reads a window of.

Element ``p`` of the bitstream (``p`` = 1, 2, 3, …) is the ``p``-th 64-bit output of Philox 4x64-10
(Salmon et al. 2011) under the key below, as NumPy's ``random_raw`` gives it: a counter-based
generator in pure integer arithmetic, so the bits are the same on every operating system, processor
and library version. Positions at or below 0 read as *blank*, which every value class turns into 0
(or the nearest value its domain holds). A tensor's data are the ``n`` elements that *end* at
position ``stop``: lowering ``stop`` slides a culprit towards the end of the tensor and fills the
front with blanks, after which ``n`` shrinks onto it. That is what makes examples shrink to one or
two numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# "consistency" in ASCII; never change it: recipes in the wild depend on it
_KEY = 0x636F6E73697374656E6379
_CACHED = 1 << 18  # 2 MB of bits; Hypothesis draws windows that nearly always end below this

Bits = npt.NDArray[np.uint64]
_head: Bits = np.empty(0, dtype=np.uint64)


def window(n: int, stop: int) -> tuple[Bits, int]:
    """The last ``n`` elements up to ``stop``: ``(bits, blanks)``.

    ``bits`` holds the ``n - blanks`` elements at positions ``1 … stop`` that exist; the first
    ``blanks`` elements of the window lie at positions ≤ 0. Both are read-only views or fresh arrays
    of dtype uint64; nothing is copied for short windows.
    """
    global _head
    stop = max(stop, 0)
    blanks = max(n - stop, 0)
    start = stop - (n - blanks)
    if stop <= _CACHED:
        if stop > _head.size:
            grown = _raw(0, min(_CACHED, max(2 * stop, 1 << 14)))
            grown.flags.writeable = False
            _head = grown
        return _head[start:stop], blanks
    return _raw(start, stop), blanks


def _raw(start: int, stop: int) -> Bits:
    generator = np.random.Philox(key=_KEY)
    generator.advance(start // 4)  # one step of the counter makes four 64-bit words
    skip = start % 4
    words: Bits = generator.random_raw(stop - start + skip)
    return words[skip:]
