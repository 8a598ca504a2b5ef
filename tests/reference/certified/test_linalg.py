"""Every ball of a function of matrices holds what mpmath computes in 500 bits; so do those of
gradients."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from flint import acb_mat, arb, arb_mat

from consistency.reference.certified import balls, spectra
from consistency.reference.certified.matrix_rank import exact_rank
from tests.reference.certified.enclosing import (
    BITS,
    derivatives,
    enclosed,
    enclosed_gradients,
    holds,
    numbers,
    tight,
)

CASES = int(os.environ.get("CERTIFIED_CASES", "3"))  # per function and kind of numbers
Draw = np.random.Generator


def normal(draw: Draw, shape: tuple[int, ...], is_complex: bool) -> Any:
    real = draw.standard_normal(shape)
    return real + 1j * draw.standard_normal(shape) if is_complex else real


def matrix(draw: Draw, rows: int, columns: int, is_complex: bool) -> Any:
    """Numbers of different size; now and then nearly singular, or scaled far from 1."""
    x = normal(draw, (rows, columns), is_complex) * 2.0 ** draw.integers(-6, 6, (rows, 1))
    if draw.random() < 0.2 and rows > 1:
        x[-1] = x[0] * (1.0 + 2.0**-30)
        x[-1, -1] += 2.0**-20
    return x * 2.0 ** int(draw.integers(-80, 80)) if draw.random() < 0.3 else x


def regular(draw: Draw, n: int, is_complex: bool) -> Any:
    return normal(draw, (n, n), is_complex) + n * np.eye(n)


def definite(draw: Draw, n: int, is_complex: bool) -> Any:
    """Exactly Hermitian."""
    x = np.round(normal(draw, (n, n), is_complex) * 16) / 16
    return x @ x.conj().T + np.eye(n) / 8


@dataclass(frozen=True)
class Row:
    """A function of torch's and of mpmath's (from arrays to flat lists), and what draws their
    arguments.

    ``bits`` are how many of mpmath's are good, with arguments that are nearly singular.
    """

    name: str
    torch: Callable[..., Any]
    mpmath: Callable[..., Sequence[Sequence[Any]]]
    draw: Callable[[Draw, int, bool], Sequence[Any]]
    gradient: bool = True
    kinds: tuple[bool, ...] = (False, True)  # of real numbers, of complex ones


def mat(x: Any) -> Any:
    return mpmath.matrix(x.tolist())


def flat(x: Any) -> list[Any]:
    return [x[i, j] for i in range(x.rows) for j in range(x.cols)]


def triangle(x: Any, upper: bool = False) -> Any:
    keep = np.triu if upper else np.tril
    kept = keep(np.ones(x.shape)) > 0
    return np.where(kept, x, mpmath.mpf(0))


def of_factor(x: Any, upper: bool = False) -> Any:
    factor = mat(triangle(x, upper))
    return factor.H * factor if upper else factor * factor.H


def factored(x: Any) -> list[list[Any]]:
    """L and U with partial pivoting."""
    n = len(x)
    rows = [list(row) for row in x]
    for k in range(n):
        best = max(range(k, n), key=lambda i: abs(rows[i][k]))
        rows[k], rows[best] = rows[best], rows[k]
        for i in range(k + 1, n):
            rows[i][k] = rows[i][k] / rows[k][k]
            rows[i][k + 1 :] = [
                a - rows[i][k] * b for a, b in zip(rows[i][k + 1 :], rows[k][k + 1 :], strict=True)
            ]
    return [
        [rows[i][j] if j < i else mpmath.mpf(i == j) for i in range(n) for j in range(n)],
        [rows[i][j] if j >= i else mpmath.mpf(0) for i in range(n) for j in range(n)],
    ]


def triangular_solve(b: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        return torch.triangular_solve(b, a, transpose=True)[0]


def rotated(left: bool, transpose: bool) -> Callable[..., list[list[Any]]]:
    def of(x: Any, tau: Any, b: Any) -> list[list[Any]]:
        rows = len(x)
        wide = np.concatenate([x, np.zeros((rows, rows - x.shape[1]), dtype=int)], 1)
        product = mpmath.matrix(
            np.array(reflected(wide, tau)[0], dtype=object).reshape(rows, rows).tolist()
        )
        product = product.H if transpose else product
        return [flat(product * mat(b) if left else mat(b) * product)]

    return of


def det(x: Any) -> Any:
    return mpmath.det(mat(x))


def one(of: Callable[..., Any]) -> Callable[..., list[list[Any]]]:
    return lambda *xs: [flat(of(*map(mat, xs)))]


def reflected(x: Any, tau: Any) -> list[list[Any]]:
    rows, columns = x.shape
    product = mpmath.eye(rows)
    for i in range(len(tau)):
        v = mpmath.matrix([0] * i + [1] + [x[j, i] for j in range(i + 1, rows)])
        product = product * (mpmath.eye(rows) - tau[i] * (v * v.H))
    return [[product[i, j] for i in range(rows) for j in range(columns)]]


def hermitian(x: Any) -> Any:
    return (mat(x) + mat(x).H) / 2


def eigenvalues(x: Any) -> list[list[Any]]:
    return [list(mpmath.eighe(hermitian(x), eigvals_only=True))]


def singular_values(x: Any) -> list[list[Any]]:
    return [list(mpmath.svd_c(mat(x).apply(mpmath.mpc), compute_uv=False))]


def norms(order: Any) -> Callable[[Any], list[list[Any]]]:
    def of(x: Any) -> list[list[Any]]:
        values = singular_values(x)[0]
        return [[sum(values) if order == "nuc" else max(values) if order == 2 else min(values)]]

    return of


def crossed(a: Any, b: Any) -> list[list[Any]]:
    return [[a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3] for i in range(3)]]


def tall(draw: Draw, n: int, c: bool) -> Any:
    return np.concatenate([regular(draw, n, c), normal(draw, (2, n), c)])


L = torch.linalg
ROWS = [
    Row("inv", L.inv, one(lambda a: a**-1), lambda d, n, c: [matrix(d, n, n, c)]),
    Row("solve", L.solve, one(mpmath.lu_solve), lambda d, n, c: [regular(d, n, c), normal(d, (n, 1),
    c)]),
    Row(
        "solve from the right", lambda a, b: L.solve(a, b, left=False), one(lambda a,
        b: mpmath.lu_solve(a.T, b.T).T),
        lambda d, n, c: [regular(d, n, c), normal(d, (1, n), c)],
    ),
    Row(
        "solve_triangular", lambda a, b: L.solve_triangular(a, b, upper=True),
        lambda a, b: one(mpmath.lu_solve)(triangle(a, True), b), lambda d, n, c: [regular(d, n, c),
        normal(d, (n, 1), c)],
    ),
    Row(
        "solve_triangular with ones", lambda a, b: L.solve_triangular(a, b, upper=False,
        unitriangular=True),
        lambda a, b: one(mpmath.lu_solve)(triangle(a) * (1 - np.eye(len(a),
        dtype=int)) + np.eye(len(a), dtype=int), b),
        lambda d, n, c: [regular(d, n, c), normal(d, (n, 1), c)],
    ),
    Row("det", L.det, lambda a: [[det(a)]], lambda d, n, c: [matrix(d, n, n, c)]),
    Row(
        "slogdet", L.slogdet, lambda a: [[det(a) / abs(det(a))], [mpmath.log(abs(det(a)))]],
        lambda d, n, c: [regular(d, n, c) * (-1 if n % 2 else 1)],
    ),
    Row("cholesky", L.cholesky, lambda a: one(mpmath.cholesky)(a), lambda d, n, c: [definite(d, n,
    c)], gradient=False),
    Row(
        "cholesky upwards", lambda a: L.cholesky(a, upper=True),
        one(lambda a: mpmath.cholesky(a).H),
        lambda d, n, c: [definite(d, n, c)], gradient=False,
    ),
    Row("cholesky_inverse", torch.cholesky_inverse, lambda a: [flat(of_factor(a) ** -1)], lambda d,
    n, c: [regular(d, n, c).real]),
    Row(
        "cholesky_inverse upwards", lambda a: torch.cholesky_inverse(a, upper=True),
        lambda a: [flat(of_factor(a, True) ** -1)],
        lambda d, n, c: [regular(d, n, c)], kinds=(False,),
    ),
    Row(
        "cholesky_solve", torch.cholesky_solve, lambda b, a: [flat(mpmath.lu_solve(of_factor(a),
        mat(b)))],
        lambda d, n, c: [normal(d, (n, 1), c), regular(d, n, c)], kinds=(False,),
    ),
    Row("matrix_exp", torch.matrix_exp, one(lambda a: mpmath.expm(a, "taylor")), lambda d, n,
    c: [normal(d, (n, n), c)]),
    Row("pinv", L.pinv, one(lambda a: (a.H * a) ** -1 * a.H), lambda d, n, c: [tall(d, n, c)]),
    Row("pinv of wide ones", L.pinv, one(lambda a: a.H * (a * a.H) ** -1), lambda d, n, c: [tall(d,
    n, c).T]),
    Row(
        "lstsq", lambda a, b: L.lstsq(a, b).solution, one(lambda a, b: (a.H * a) ** -1 * a.H * b),
        lambda d, n, c: [tall(d, n, c), normal(d, (n + 2, 1), c)],
    ),
    Row("eigvalsh", L.eigvalsh, eigenvalues, lambda d, n, c: [definite(d, n, c)], gradient=False),
    Row("svdvals", L.svdvals, singular_values, lambda d, n, c: [normal(d, (n, n + 1), c)]),
    Row("svdvals of tall ones", L.svdvals, singular_values, lambda d, n, c: [tall(d, n, c)]),
    *(
        Row(f"matrix_norm {order}", lambda a, o=order: L.matrix_norm(a, o), norms(order), lambda d,
        n, c: [tall(d, n, c)])
        for order in ("nuc", 2, -2)
    ),
    Row("cross", L.cross, crossed, lambda d, n, c: [normal(d, (3,), c), normal(d, (3,), c)]),
    Row("lu", lambda a: tuple(L.lu(a)[1:]), factored, lambda d, n, c: [normal(d, (n, n), c)],
    kinds=(False,)),
    *(
        Row(
            f"lu_solve {options}", lambda a, b, o=options: L.lu_solve(*L.lu_factor(a), b, **o),
            one(lambda a, b, o=options: mpmath.lu_solve(a.H if "adjoint" in o else a, b)),
            lambda d, n, c: [regular(d, n, c), normal(d, (n, 1), c)], kinds=(False,),
        )
        for options in ({}, {"adjoint": True})
    ),
    Row(
        "triangular_solve", triangular_solve,
        lambda b, a: one(mpmath.lu_solve)(triangle(a, True).T, b), lambda d, n, c: [normal(d, (n,
        1), c), regular(d, n, c)],
    ),
    *(
        Row(
            f"ormqr {left} {transpose}", lambda x, t, b, k=left, f=transpose: torch.ormqr(x, t, b,
            left=k, transpose=f),
            rotated(left, transpose),
            lambda d, n, c: [normal(d, (n + 1, n), c), normal(d, (n,), c) / 16, normal(d, (n + 1,
            n + 1), c)],
        )
        for left in (True, False) for transpose in (True, False)
    ),
    Row(
        "householder_product", L.householder_product, reflected,
        lambda d, n, c: [normal(d, (n + 1, n), c), normal(d, (n,), c) / 16],
    ),
]  # fmt: skip
NAMES = [row.name for row in ROWS]


def arguments(row: Row, draw: Draw, is_complex: bool, most: int) -> list[torch.Tensor]:
    drawn = row.draw(draw, int(draw.integers(1, most)), is_complex)
    return [torch.from_numpy(np.ascontiguousarray(x)) for x in drawn]


def arrays(tensors: Sequence[torch.Tensor]) -> list[Any]:
    return [np.array(numbers(t.reshape(-1)), dtype=object).reshape(tuple(t.shape)) for t in tensors]


def in_parts(truth: Sequence[Sequence[Any]], made: Sequence[torch.Tensor]) -> list[list[Any]]:
    found = []
    for values, tensor in zip(truth, made, strict=True):
        found.append([mpmath.re(v) for v in values])
        if tensor.is_complex():
            found.append([mpmath.im(v) for v in values])
    return found


def check(row: Row, is_complex: bool, cases: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    known: list[Any] = []
    for _ in range(cases):
        given = arguments(row, draw, is_complex, 6)
        made = row.torch(*given)
        made = tuple(made) if isinstance(made, tuple) else (made,)
        with mpmath.workprec(2 * BITS):
            wanted = in_parts(row.mpmath(*arrays(given)), made)
        found = enclosed(
            lambda *xs: tuple(y) if isinstance(y := row.torch(*xs), tuple) else y, *given, bits=512
        )
        for part, truth in zip(found, wanted, strict=True):
            scale = max([float(abs(t)) for t in truth] + [1e-300])
            assert all(holds(x, t, scale) for x, t in zip(part, truth, strict=True)), (
                row.name,
                given,
            )
            known += [x for x, t in zip(part, truth, strict=True) if t != 0]
    assert tight(known) >= 0.99


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_balls_hold_the_truth(row: Row, is_complex: bool) -> None:
    if is_complex in row.kinds:
        check(row, is_complex, CASES, NAMES.index(row.name))


@pytest.mark.nightly
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_balls_hold_the_truth_of_many(row: Row, is_complex: bool) -> None:
    if is_complex in row.kinds:
        check(row, is_complex, 60, 1000 + NAMES.index(row.name))


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.gradient], ids=[row.name for row in ROWS if row.gradient]
)
def test_gradients_are_derivatives(row: Row, is_complex: bool) -> None:
    if is_complex not in row.kinds:
        return
    draw = np.random.default_rng(NAMES.index(row.name))
    given = [torch.from_numpy(np.ascontiguousarray(x)) for x in row.draw(draw, 2, is_complex)]
    made = row.torch(*given)
    made = tuple(made) if isinstance(made, tuple) else (made,)
    cotangents = [
        torch.from_numpy(np.asarray(normal(draw, tuple(y.shape), y.is_complex()))) for y in made
    ]
    with mpmath.workprec(2 * BITS):
        wanted = derivatives(row.mpmath, cotangents, *given)
    found = enclosed_gradients(row.torch, cotangents, *given, bits=256)
    for part, truth in zip(found, wanted, strict=True):
        scale = max([float(abs(t)) for t in truth] + [1.0])
        assert all(holds(x, t, scale, 200) for x, t in zip(part, truth, strict=True)), (
            row.name,
            part,
            truth,
        )
        assert tight([x for x, t in zip(part, truth, strict=True) if abs(t) > 2.0**-200]) == 1.0


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("upper", [False, True])
def test_gradients_by_hermitian_matrices_are_right_in_hermitian_directions(
    upper: bool, is_complex: bool
) -> None:
    """What Cholesky's factor and the eigenvalues change by along a Hermitian direction."""
    draw = np.random.default_rng(3)
    a, e = definite(draw, 3, is_complex), definite(draw, 3, is_complex)
    for function, truth in (
        (
            lambda x: L.cholesky(x, upper=upper),
            one(lambda x: mpmath.cholesky(x).H if upper else mpmath.cholesky(x)),
        ),
        (lambda x: L.eigvalsh(x, UPLO="U" if upper else "L"), eigenvalues),
    ):
        y = function(torch.from_numpy(a))
        g = normal(draw, tuple(y.shape), y.is_complex())
        parts = enclosed_gradients(function, [torch.from_numpy(g)], torch.from_numpy(a), bits=256)
        with mpmath.workprec(2 * BITS):
            step = mpmath.mpf(2) ** -160
            x, direction = (np.vectorize(mpmath.mpmathify, otypes=[object])(v) for v in (a, e))
            above, below = truth(x + step * direction)[0], truth(x - step * direction)[0]
            slope = sum(mpmath.re(mpmath.conj(mpmath.mpmathify(w)) * (p - q))
                        for w, p, q in zip(g.reshape(-1).tolist(), above, below,
                        strict=True)) / (2 * step)  # fmt: skip
        with balls.precision(256):
            along = sum(
                (
                    balls.ball(p) * arb(float(q.real))
                    for p, q in zip(parts[0], e.reshape(-1), strict=True)
                ),
                arb(0),
            )
            if is_complex:
                along += sum(
                    (
                        balls.ball(p) * arb(float(q.imag))
                        for p, q in zip(parts[1], e.reshape(-1), strict=True)
                    ),
                    arb(0),
                )
        assert holds(along, slope, 1.0, 200)
        assert tight([along]) == 1.0


def test_multiple_eigenvalues_are_enclosed_and_their_vectors_are_not() -> None:
    with balls.precision(128):
        a = arb_mat([[2, 1, 1], [1, 2, 1], [1, 1, 2]])  # 1, 1, 4
        values, vectors = spectra.eigenvalues(a)
        assert [
            v.contains(w) and v.rad() < 1e-20 for v, w in zip(values, (1, 1, 4), strict=True)
        ] == [True] * 3
        assert [row[2].is_finite() for row in vectors] == [True] * 3 or not vectors[0][
            2
        ].is_finite()
        assert not any(row[0].is_finite() for row in vectors)
        assert [
            v.contains(5)
            for v in spectra.eigenvalues(
                acb_mat(arb_mat(4, 4, [5 * (i == j) for i in range(4) for j in range(4)]))
            )[0]
        ] == [True] * 4


def test_singular_values_of_singular_matrices_are_zero() -> None:
    a = torch.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.5, 1.0, 7.0]], dtype=torch.float64)
    (values,) = enclosed(L.svdvals, a)
    assert values[2] == 0
    assert tight(values) == 1.0
    assert exact_rank(arb_mat(a.tolist())) == 2
    assert exact_rank(acb_mat([[1, 1j], [1j, -1]])) == 1


@pytest.mark.parametrize("function", [L.inv_ex, lambda a: L.solve_ex(a, a), L.cholesky_ex])
def test_what_balls_cannot_tell_from_singular_is_unsure(function: Any) -> None:
    a = torch.tensor(
        [[0.1, 0.2], [0.2, 0.4]], dtype=torch.float64
    )  # 0.2 and 0.4 are twice and four times what 0.1 is
    with pytest.raises(balls.Unsure):
        enclosed(lambda x: function(x)[0], a)


def test_tolerances_that_may_cut_off_singular_values_are_unsure() -> None:
    a = torch.diag(torch.tensor([1.0, 1e-3], dtype=torch.float64))
    assert tight(enclosed(lambda x: L.pinv(x, rtol=1e-6), a)[0]) == 1.0
    with pytest.raises(balls.Unsure):
        enclosed(lambda x: L.pinv(x, rtol=1e-2), a)


def test_what_is_not_finite_is_unsure() -> None:
    with pytest.raises(balls.Unsure):
        enclosed(L.det, torch.tensor([[math.nan]], dtype=torch.float64))


def test_ties_of_pivots_are_unsure() -> None:
    with pytest.raises(balls.Unsure):
        enclosed(lambda a: L.lu(a)[2], torch.tensor([[1.0, 2.0], [-1.0, 3.0]], dtype=torch.float64))
    assert enclosed(
        lambda a: L.lu(a)[2], torch.tensor([[1.0, 2.0], [-2.0, 3.0]], dtype=torch.float64)
    )[0].tolist() == [
        -2,
        3,
        0,
        3.5,
    ]


def test_frequencies_are_exact_quotients() -> None:
    for n in (7, 8):
        (found,) = enclosed(lambda n=n: torch.fft.fftfreq(n, d=0.1, dtype=torch.float64))
        with mpmath.workprec(BITS):
            truth = [(k if 2 * k < n else k - n) / (n * mpmath.mpf(0.1)) for k in range(n)]
        assert all(holds(x, t, 1.0) for x, t in zip(found, truth, strict=True))


def test_success_is_reported_where_it_is_certain() -> None:
    _, info = enclosed(L.inv_ex, torch.eye(2, dtype=torch.float64))
    assert info.tolist() == [0]
