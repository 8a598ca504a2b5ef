"""What is not unique: any valid choice among ties, and any valid factorization, is healthy;
everything else is a failure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import consistency
from consistency.core.model import Result
from consistency.operators.declare import Operator
from tests.support.running import failures, noticed

pytestmark = pytest.mark.usefixtures("drawn_once")

Deed = Callable[..., Any]


class Doing(consistency.Backend):
    """``deed(run, args, kwargs)`` in place of torch's own, which ``run`` is; ``changed`` counts the
    answers that differ from it."""

    name = "mine"

    def __init__(self, deed: Deed) -> None:
        self.deed, self.changed = deed, 0

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        run = functools.partial(super().call, operator)
        answer = self.deed(run, list(args), dict(kwargs))
        self.changed += not same(answer, run(args, kwargs))
        return answer


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return (
            isinstance(b, Tensor)
            and a.shape == b.shape
            and torch.allclose(a, b, rtol=0.0, atol=0.0, equal_nan=True)
        )
    return isinstance(a, tuple) and isinstance(b, tuple) and all(map(same, a, b))


def failing(deed: Deed, operator: str, examples: int = 40) -> tuple[list[Result], Doing]:
    backend = Doing(deed)
    return failures([operator], [backend], ["float32"], ["forward"], examples), backend


def is_noticed(deed: Deed, operator: str, examples: int = 40) -> bool:
    return noticed([operator], [Doing(deed)], ["float32"], ["forward"], examples)


def given(args: list[Any], kwargs: dict[str, Any], position: int, default: Any) -> Any:
    return kwargs.get("dim", args[position] if len(args) > position else default)


# Ties, broken the other way: the row is read from its end.


def reversed_argument(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """argmax, argmin, argsort."""
    dim, x = given(args, kwargs, 1, None), args[0]
    if not x.ndim or kwargs.get("stable"):
        return run(args, kwargs)
    if dim is None and run.args[0].name != "argsort":
        return x.numel() - 1 - run([x.reshape(-1).flip(0)], {}).reshape(run(args, kwargs).shape)
    dim = -1 if dim is None else dim
    return x.shape[dim] - 1 - run([x.flip(dim), *args[1:]], kwargs)


def reversed_choice(position: int, default: int | None = None) -> Deed:
    """max, min, median, kthvalue, topk, sort, mode along a dim: (values, index)."""

    def deed(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
        dim, x = given(args, kwargs, position, default), args[0]
        if dim is None or not x.ndim or kwargs.get("stable"):
            return run(args, kwargs)
        values, index = run([x.flip(dim), *args[1:]], kwargs)
        return values, x.shape[dim] - 1 - index

    return deed


def last_mode(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The largest of the most frequent numbers, at its first place."""
    x, dim = args
    if not x.ndim:
        return run(args, kwargs)
    value, index = run([-x.flip(dim), dim], kwargs)
    return -value, x.shape[dim] - 1 - index


def other_zero(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """unique: -0 stands for both zeros."""
    result = run(args, kwargs)
    values, *rest = result if isinstance(result, tuple) else (result,)
    values = torch.where(values == 0.0, -0.0, values)
    return (values, *rest) if isinstance(result, tuple) else values


TIES = {
    "argsort": reversed_argument, "median": reversed_choice(1), "nanmedian": reversed_choice(1),
    "kthvalue": reversed_choice(2, -1),
    "topk": reversed_choice(2, -1), "sort": reversed_choice(1, -1), "mode": last_mode,
}  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize("operator", TIES)
def test_ties_may_be_broken_the_other_way(operator: str) -> None:
    found, backend = failing(TIES[operator], operator, 100)
    assert not found, f"{found[0].explanation}\n{found[0].case.line}"
    assert backend.changed >= 3


# The first one is documented: https://pytorch.org/docs/stable/generated/torch.max.html
FIRST = {
    "argmax": reversed_argument, "argmin": reversed_argument, "max": reversed_choice(1),
    "min": reversed_choice(1),
}  # fmt: skip


@pytest.mark.parametrize("operator", FIRST)
def test_of_equal_extrema_the_first_one_is_owed(operator: str) -> None:
    found, _ = failing(FIRST[operator], operator, 40)
    assert found
    causes = {result.evidence.cause.name for result in found if result.evidence.cause}
    assert causes == {"another-of-equals"}
    assert "another than the first of several equal elements is returned" in found[0].explanation


def other_nan(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """argmax: of several NaN in a row the last one."""
    x, dim, index = args[0], given(args, kwargs, 1, None), run(args, kwargs)
    if dim is None or not x.ndim or not x.numel():
        return index
    last = reversed_argument(run, args, kwargs)
    kept = kwargs.get("keepdim", False)
    nan = x.isnan().any(dim, keepdim=kept)
    return torch.where(nan, last, index)


def test_any_of_several_nan_will_do() -> None:
    found, backend = failing(other_nan, "argmax", 100)
    assert not found, found[0].explanation
    assert backend.changed


@pytest.mark.parametrize("operator", ["unique", "unique_consecutive"])
def test_either_zero_may_stand_for_both(operator: str) -> None:
    found, _ = failing(other_zero, operator)
    assert not found, found[0].explanation


def neighbor(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Indices one beside, and all values right."""
    result = run(args, kwargs)
    if isinstance(result, Tensor):
        return result if result.is_floating_point() else result - (result > 0).to(result.dtype)
    values, index = result
    return values, index - (index > 0).to(index.dtype)


def far_away(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
    result = run(args, kwargs)
    if isinstance(result, Tensor):
        return result if result.is_floating_point() else result + 100000
    values, index = result
    return values, index + 100000


def swapped(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The first two values of the first output change places."""
    result = run(args, kwargs)
    values = (result if isinstance(result, Tensor) else result[0]).clone()
    flat = values.view(-1)
    flat[:2] = flat[:2].flip(0)
    return values if isinstance(result, Tensor) else (values, *result[1:])


def first_only(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Every index is the first one."""
    values, index = run(args, kwargs)
    return values, torch.zeros_like(index)


WRONG_CHOICES: list[tuple[str, Deed]] = [
    *((name, deed) for name in ("argmax", "argmin", "argsort", "max", "min", "median", "kthvalue",
    "topk", "sort", "mode", "cummax")
      for deed in (neighbor, far_away)),
    *((name, swapped) for name in ("sort", "topk", "argsort", "unique")),
    ("sort", first_only), ("topk", first_only),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "deed"), WRONG_CHOICES)
def test_wrong_choices_are_noticed(operator: str, deed: Deed) -> None:
    assert is_noticed(deed, operator)


# Factorizations.


def spun(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Singular vectors, both with the other sign; extra columns of full factors in any order."""
    u, s, vh = run(args, kwargs)
    k = s.shape[-1]
    signs = torch.where(torch.arange(k) % 2 == 0, -1.0, 1.0)
    u, vh = u.clone(), vh.clone()
    u[..., :k] *= signs
    vh[..., :k, :] *= signs.unsqueeze(-1)
    u[..., k:] = -u[..., k:].flip(-1)
    return u, s, vh


def other_signs(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Eigenvectors, every second with the other sign."""
    w, v = run(args, kwargs)
    return w, v * torch.where(torch.arange(v.shape[-1]) % 2 == 0, -1.0, 1.0)


def positive_diagonal(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """R with a diagonal that is not negative, as some libraries have it."""
    q, r = run(args, kwargs)
    signs = torch.where(r.diagonal(dim1=-2, dim2=-1) < 0.0, -1.0, 1.0)
    rows = torch.cat([signs, signs.new_ones(*signs.shape[:-1], r.shape[-2] - signs.shape[-1])], -1)
    return (q * rows.unsqueeze(-2) if q.numel() else q), r * rows.unsqueeze(-1)


def other_order(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return run(args, kwargs).flip(-1)


def pairs_turned(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """eig: the other order, and vectors turned by a phase."""
    w, v = run(args, kwargs)
    return w.flip(-1), v.flip(-1) * (0.6 + 0.8j)


HEALTHY_FACTORS = {
    "linalg.svd": spun, "linalg.eigh": other_signs, "linalg.qr": positive_diagonal,
    "linalg.eigvals": other_order,
    "linalg.eig": pairs_turned,
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("operator", HEALTHY_FACTORS)
def test_factors_may_differ(operator: str) -> None:
    found, backend = failing(HEALTHY_FACTORS[operator], operator)
    assert not found, f"{found[0].explanation}\n{found[0].case.line}"
    assert backend.changed >= 10


def test_any_basis_of_an_eigenspace_will_do() -> None:
    """Equal eigenvalues: their vectors may be permuted and rotated. Also equal singular values."""
    eye = torch.eye(4, dtype=torch.float64)
    turned = torch.linalg.qr(
        torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ).Q
    for operator, answer in {
        "linalg.eigh": (torch.ones(4), turned),
        "linalg.svd": (turned, torch.ones(4), turned.mT),
    }.items():
        outputs = [part.float() for part in answer]
        found = consistency.operators.get(operator).observe
        assert found is not None
        for seen, wanted in zip(
            found((eye,), {}, tuple(o.double() for o in outputs)),
            (torch.ones(4), eye, eye, eye),
            strict=False,
        ):
            torch.testing.assert_close(seen, wanted.double(), rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("operator", ["linalg.lu", "linalg.lu_factor"])
def test_pivots_of_equal_size_may_be_chosen_either_way(operator: str) -> None:
    a = torch.tensor([[1.0, 2.0], [-1.0, 3.0]], dtype=torch.float64)
    observe = consistency.operators.get(operator).observe
    assert observe is not None
    first = torch.tensor(
        [[1.0, 2.0], [-1.0, 5.0]], dtype=torch.float64
    )  # packed, without an exchange
    second = torch.tensor(
        [[-1.0, 3.0], [-1.0, 5.0]], dtype=torch.float64
    )  # with the rows exchanged
    seen = []
    for packed, pivots in ((first, [1, 2]), (second, [2, 2])):
        low, up = packed.tril(-1) + torch.eye(2, dtype=torch.float64), packed.triu()
        order = (
            torch.eye(2, dtype=torch.float64)[[1, 0]]
            if pivots[0] == 2
            else torch.eye(2, dtype=torch.float64)
        )
        outputs = (
            (order, low, up)
            if operator == "linalg.lu"
            else (packed, torch.tensor(pivots, dtype=torch.int32))
        )
        seen.append(observe((a,), {}, outputs))
    for one, other in zip(*seen, strict=True):
        torch.testing.assert_close(one, other, rtol=0.0, atol=0.0)
    torch.testing.assert_close(seen[0][0], a)


def changed_part(which: int, change: Callable[[Tensor], Tensor]) -> Deed:
    def deed(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
        parts = list(run(args, kwargs))
        parts[which] = change(parts[which])
        return tuple(parts)

    return deed


def balanced(a: int, b: int) -> Deed:
    """One factor twice, the other half as large: the product is right."""

    def deed(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
        parts = list(run(args, kwargs))
        parts[a], parts[b] = parts[a] * 2.0, parts[b] * 0.5
        return tuple(parts)

    return deed


def no_factorization(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """I · A · I: the product is right, and nothing else."""
    p, low, up = run(args, kwargs)
    k = low.shape[-1]
    if args[0].shape[-2] != k:
        return p, low, up
    return torch.eye(k).expand(p.shape), torch.eye(k).expand(low.shape), args[0].clone()


def without_pivots(run: Deed, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The rows as they come: L grows."""
    a = args[0]
    rows, columns = a.shape[-2:]
    if rows < 2 or columns < 2:
        return run(args, kwargs)
    exchanged = a.flip(-2)
    p, low, up = run([exchanged], kwargs)
    shear = torch.eye(low.shape[-1])
    shear[1, 0] = 3.0
    return p.flip(-2), low @ shear, torch.linalg.solve(shear, up)


def swapped_columns(tensor: Tensor) -> Tensor:
    return tensor.flip(-1)


WRONG_FACTORS: list[tuple[str, Deed]] = [
    ("linalg.svd", balanced(0, 2)),
    ("linalg.svd", changed_part(0, lambda u: u * 1.001)),
    ("linalg.svd", changed_part(1, swapped_columns)),
    ("linalg.svd", changed_part(2, torch.neg)),
    (
        "linalg.svd",
        changed_part(2, lambda v: v.mT.contiguous() if v.shape[-1] == v.shape[-2] else v),
    ),
    ("linalg.eigh", changed_part(0, swapped_columns)),
    ("linalg.eigh", changed_part(1, lambda v: v * 1.001)),
    ("linalg.eigh", changed_part(1, torch.zeros_like)),
    ("linalg.qr", balanced(0, 1)),
    ("linalg.qr", changed_part(1, torch.neg)),
    (
        "linalg.qr",
        changed_part(1, lambda r: r.mT.contiguous() if r.shape[-1] == r.shape[-2] else r),
    ),
    ("linalg.lu", balanced(1, 2)),
    ("linalg.lu", no_factorization),
    ("linalg.lu", without_pivots),
    ("linalg.lu", changed_part(0, lambda p: p.mT.contiguous())),
    (
        "linalg.lu_factor",
        changed_part(
            1,
            lambda pivots: torch.arange(1, pivots.shape[-1] + 1, dtype=pivots.dtype).expand_as(
                pivots
            ),
        ),
    ),
    ("linalg.lu_factor", changed_part(1, lambda pivots: pivots + 100)),
    ("linalg.eigvals", lambda run, args, kwargs: run(args, kwargs) * 1.001),
    (
        "linalg.eigvals",
        lambda run, args, kwargs: run(args, kwargs)[..., :1].expand(args[0].shape[:-1]),
    ),
    ("linalg.eig", changed_part(0, swapped_columns)),
    ("linalg.eig", changed_part(1, lambda v: v * 2.0)),
    ("linalg.eig", changed_part(1, lambda v: v[..., :1].expand(v.shape))),
    (
        "linalg.eig",
        lambda run, args, kwargs: tuple(
            part[..., :1].expand(part.shape) for part in run(args, kwargs)
        ),
    ),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("operator", "deed"), WRONG_FACTORS)
def test_what_is_no_factorization_is_noticed(operator: str, deed: Deed) -> None:
    assert is_noticed(deed, operator, 25)
