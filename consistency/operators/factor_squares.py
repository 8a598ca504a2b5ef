"""Squares of the numbers of factors, which do not depend on signs and phases: so gradients go
through eigenvectors and singular vectors, whose own ones depend on that choice
(:mod:`.decompositions` compares products of factors).

Matrices have a diagonal of distinct whole numbers, beside which the other numbers are small: the
gradient of a vector has the differences of eigenvalues in its denominators.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from ..core.dtypes import PARTS
from .declare import FLOAT, Call, Drawing, Operator, accumulated, call
from .decompositions import of_longer_side
from .hooks import Tensors, hook
from .magnitudes import largest
from .matrices import ENTRIES

BESIDE = 0.125  # × the other numbers
# Exact factors of the whole matrix, by name: numbers would be varied beyond what a format holds.
FACTORS = {"usual": 1.0, "small": 2.0**-20, "large": 2.0**20, "huge": 2.0**55}


def square(d: Drawing) -> Call:
    """Up to 17 rows. Shrinks towards few, and a factor of 1."""
    n = d.size(1, 17)
    return _drawn(d, n, n)


def tall(d: Drawing) -> Call:
    """Up to 17 columns, and as many rows or up to 9 more. Shrinks as :func:`square`."""
    n = d.size(1, 17)
    return _drawn(d, n + d.choice(0, 0, 1, 9), n)


def _drawn(d: Drawing, rows: int, columns: int) -> Call:
    batch, real = d.shape(0, 1, most=3), PARTS.get(d.dtype, d.dtype)
    x = d.tensor((*batch, rows, columns), ENTRIES)
    diagonal = d.tensor(
        (*batch, columns), ENTRIES, dtype=real, values=("permutation",), layout=False
    )
    factor = d.choice("usual", "usual", "usual", "small", "large", "huge")
    return call(x, diagonal, **({} if factor == "usual" else {"factor": factor}))


def _matrix(x: torch.Tensor, diagonal: torch.Tensor) -> torch.Tensor:
    below = x.shape[-2] - x.shape[-1]
    return F.pad(torch.diag_embed(diagonal + 1.0), (0, 0, 0, below)) + x * BESIDE


def _squares(x: torch.Tensor) -> torch.Tensor:
    return x.real.square() + x.imag.square() if x.is_complex() else x.square()


def _hermitian(x: torch.Tensor) -> torch.Tensor:
    return (x + x.mH) * 0.5


def eigh(
    x: torch.Tensor, diagonal: torch.Tensor, factor: str = "usual"
) -> tuple[torch.Tensor, ...]:
    """The eigenvalues of the Hermitian matrix, and |V|²."""
    values, vectors = torch.linalg.eigh(_matrix(_hermitian(x), diagonal) * FACTORS[factor])
    return values / FACTORS[factor], _squares(vectors)


def svd(x: torch.Tensor, diagonal: torch.Tensor, factor: str = "usual") -> tuple[torch.Tensor, ...]:
    """|U|², the singular values, and |V|²."""
    u, values, vh = torch.linalg.svd(_matrix(x, diagonal) * FACTORS[factor], full_matrices=False)
    return _squares(u), values / FACTORS[factor], _squares(vh)


def qr(x: torch.Tensor, diagonal: torch.Tensor, factor: str = "usual") -> tuple[torch.Tensor, ...]:
    """|Q|² and |R|²."""
    q, r = torch.linalg.qr(_matrix(x, diagonal) * FACTORS[factor])
    return _squares(q), _squares(r / FACTORS[factor])


@hook
def of_differences(
    gradients: Tensors, x: torch.Tensor, diagonal: torch.Tensor, factor: str = "usual"
) -> list[float]:
    """A computed vector is off by u · ‖A‖ / gap, where the gap is the least difference of two
    eigenvalues or singular values, or the least one (Golub and Van Loan, 8.1.2), and so is its
    gradient, relative to itself and to the cotangents / gap that it is a sum of."""
    values = torch.linalg.svdvals(_matrix(x, diagonal))
    values = torch.cat([values, torch.zeros_like(values[..., :1])], -1)
    if x.shape[-1] == x.shape[-2]:  # the absolute values of eigenvalues lie closer at times
        signed = torch.linalg.eigvalsh(_matrix(_hermitian(x), diagonal))
        gap = min(_gap(values), _gap(signed))
    else:
        gap = _gap(values)
    widened = 1.0 + x.shape[-1] / gap
    parts = zip(gradients, (BESIDE, 1.0), strict=False)
    return [(largest(g) + own * widened) * widened for g, own in parts]


def _gap(values: torch.Tensor) -> float:
    differences = values.sort(-1).values.diff(dim=-1)
    return max(float(differences.min()), 1e-30) if differences.numel() else 1.0


OPERATORS = [
    Operator(
        name=f"linalg.{name}.squares",
        family="linalg",
        sample=sample,
        function=function,
        dtypes=FLOAT,
        error=accumulated("normwise", of_longer_side, backward=of_differences),
        complex=True,
        traits=frozenset({"any-signs"}),
    )
    for name, sample, function in (("eigh", square, eigh), ("svd", tall, svd), ("qr", tall, qr))
]
