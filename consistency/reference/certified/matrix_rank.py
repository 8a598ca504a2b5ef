"""The rank of a matrix of exact numbers, in integer arithmetic."""

from __future__ import annotations

from typing import Any

from flint import acb_mat, arb, fmpz_mat

_BITS = 1 << 12


def exact_rank(a: Any) -> int:
    """The rank of an ``arb_mat`` or ``acb_mat``; its upper limit if the numbers are not exact or
    spread over too many bits.

    A complex matrix X + iY has half the rank of [[X, −Y], [Y, X]].
    """
    max_rank = min(a.nrows(), a.ncols())
    parts = [[x.real for x in row] for row in a.tolist()] if isinstance(a, acb_mat) else a.tolist()
    if isinstance(a, acb_mat):
        imaginary = [[x.imag for x in row] for row in a.tolist()]
        top = [[*x, *(-y for y in row)] for x, row in zip(parts, imaginary, strict=True)]
        below = [[*row, *x] for x, row in zip(parts, imaginary, strict=True)]
        rank = _rank([*top, *below])
        return max_rank if rank is None else rank // 2
    rank = _rank(parts)
    return max_rank if rank is None else rank


def _rank(rows: list[list[arb]]) -> int | None:
    """The rank after scaling each row to integers."""
    integers = []
    for row in rows:
        if not all(x.is_exact() for x in row):
            return None
        pairs = [(int(m), int(e)) for m, e in (x.man_exp() for x in row)]
        powers = [e for m, e in pairs if m]
        low = min(powers, default=0)
        if max(powers, default=0) - low > _BITS:
            return None
        integers.append([m << (e - low) if m else 0 for m, e in pairs])
    return int(fmpz_mat(integers).rank())
