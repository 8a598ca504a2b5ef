"""Movements, padding, reading and writing at positions: compared with loops over Python's
fractions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from consistency.backends import resolve
from consistency.core.model import Case
from consistency.diagnose.evaluation import evaluate
from consistency.judge.tolerances import load
from consistency.reference.certified.balls import Unknowable
from tests.reference.certified.tracing_calls import (
    enclosure_tests,
    fractions,
    numbers,
    slopes,
    traced,
)

Row = Callable[[random.Random], tuple[Any, Any]]
Place = Callable[
    [tuple[int, ...], tuple[int, ...]], Any
]  # (position in the result, the input's shape) → position in the input, or None


def shape_of(rng: random.Random, low: int = 2, high: int = 4) -> tuple[int, ...]:
    return tuple(rng.randint(2, 5) for _ in range(rng.randint(low, high)))


def moved(
    call: Callable[..., Any],
    place: Callable[..., Any],
    fill: float = 0.0,
    low: int = 2,
    high: int = 4,
) -> Row:
    """Of every element of the result, where in the input it stood."""

    def row(rng: random.Random) -> tuple[Any, Any]:
        x = numbers(rng, shape_of(rng, low, high))
        found = traced(call, x)[0]
        exact, truth = fractions(x), np.empty(found.shape, dtype=object)
        for at in np.ndindex(found.shape):
            source = place(at, tuple(x.shape))
            truth[at] = Fraction(fill) if source is None else exact[source]
        return [found], [truth]

    return row


def _inside(at: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    return at if all(0 <= i < n for i, n in zip(at, shape, strict=True)) else None


def _last_two(of: Callable[[int, int, int, int], Any]) -> Place:
    return lambda at, s: _replaced(at, of(at[-2], at[-1], s[-2], s[-1]))


def _replaced(at: tuple[int, ...], last: Any) -> Any:
    return None if last is None else (*at[:-2], *last)


def _strided(at: tuple[int, ...], s: tuple[int, ...]) -> Any:
    return divmod(at[0] + 2 * at[1], s[1])


def _clip(i: int, n: int) -> int:
    return min(max(i, 0), n - 1)


def _mirror(i: int, n: int) -> int:
    return -i if i < 0 else 2 * (n - 1) - i if i >= n else i


def indexed(call: Callable[..., Any], place: Callable[..., Any]) -> Row:
    """Along dimension 1, by an index of the input's shape."""

    def row(rng: random.Random) -> tuple[Any, Any]:
        x = numbers(rng, shape_of(rng, 2, 3))
        index = torch.randint(
            0, x.shape[1], x.shape, generator=torch.Generator().manual_seed(rng.randrange(2**31))
        )
        found = traced(call, x, index)[0]
        exact, truth = fractions(x), np.empty(found.shape, dtype=object)
        for at in np.ndindex(found.shape):
            truth[at] = place(at, exact, index.numpy())
        return [found], [truth]

    return row


def _with(at: tuple[int, ...], j: int) -> tuple[int, ...]:
    return (at[0], j, *at[2:])


def reduced(how: str, include_self: bool) -> Row:
    """scatter_reduce along dimension 1, from a source of the input's shape."""

    def row(rng: random.Random) -> tuple[Any, Any]:
        x, source = (numbers(rng, (3, 4), rng.choice(("wide", "few"))) for _ in range(2))
        index = torch.tensor([[rng.randrange(4) for _ in range(4)] for _ in range(3)])
        found = traced(
            lambda a, i, b: a.scatter_reduce(1, i, b, how, include_self=include_self),
            x,
            index,
            source,
        )[0]
        a, b = fractions(x), fractions(source)
        truth = np.empty(found.shape, dtype=object)
        for i, j in itertools.product(range(3), range(4)):
            brought = [b[i, k] for k in range(4) if int(index[i, k]) == j]
            terms = [a[i, j], *brought] if include_self or not brought else brought
            truth[i, j] = _reduce(how, terms)
        return [found], [truth]

    return row


def _reduce(how: str, terms: list[Fraction]) -> Fraction:
    if how in ("amax", "amin"):
        return max(terms) if how == "amax" else min(terms)
    found = Fraction(how == "prod")
    for term in terms:
        found = found * term if how == "prod" else found + term
    return found / len(terms) if how == "mean" else found


def added(call: Callable[..., Any]) -> Row:
    """Rows of a source added to rows of the input, the same one several times."""

    def row(rng: random.Random) -> tuple[Any, Any]:
        x, source = numbers(rng, (3, 4)), numbers(rng, (6, 4))
        index = [rng.randrange(3) for _ in range(6)]
        found = traced(call, x, torch.tensor(index), source)[0]
        truth, b = fractions(x), fractions(source)
        for k, i in enumerate(index):
            for j in range(4):
                truth[i, j] += b[k, j]
        return [found], [truth]

    return row


def _scattered(at: tuple[int, ...], exact: Any, index: Any) -> Any:
    return exact[at] + sum(
        (exact[_with(at, k)] for k in range(exact.shape[1]) if index[_with(at, k)] == at[1]),
        Fraction(0),
    )


ROWS: dict[str, Row] = {
    "flip": moved(lambda x: x.flip([0, -1]), lambda at, s: (s[0] - 1 - at[0], *at[1:-1],
    s[-1] - 1 - at[-1])),
    "roll": moved(lambda x: x.roll([1, -2], [0, 1]), lambda at, s: ((at[0] - 1) % s[0],
    (at[1] + 2) % s[1], *at[2:])),
    "rot90": moved(lambda x: x.rot90(1, (-2, -1)), lambda at, s: (*at[:-2], at[-1],
    s[-1] - 1 - at[-2])),
    "tril": moved(lambda x: x.tril(1), _last_two(lambda i, j, h, w: (i,
    j) if j - i <= 1 else None)),
    "triu": moved(lambda x: x.triu(-1), _last_two(lambda i, j, h, w: (i,
    j) if j - i >= -1 else None)),
    "repeat": moved(lambda x: x.repeat(2, *[1] * (x.ndim - 1), 3), lambda at, s: (*at[1:-1],
    at[-1] % s[-1])),
    "tile": moved(lambda x: x.tile(2), lambda at, s: (*at[:-1], at[-1] % s[-1])),
    "diagonal_copy": moved(lambda x: torch.diagonal_copy(x, 1, 0, 1), lambda at, s: (at[-1],
    at[-1] + 1, *at[:-1])),
    "diag_embed": moved(lambda x: torch.diag_embed(x, 1), lambda at,
    s: at[:-1] if at[-1] == at[-2] + 1 else None, 0.0, 1, 2),
    "unfold_copy": moved(lambda x: torch.unfold_copy(x, 0, 2, 1), lambda at, s: (at[0] + at[-1],
    *at[1:-1])),
    "narrow_copy": moved(lambda x: torch.narrow_copy(x, 1, 1, 1), lambda at, s: (at[0], at[1] + 1,
    *at[2:])),
    "as_strided_copy": moved(lambda x: torch.as_strided_copy(x, (2, 2), (1, 2)), lambda at,
    s: _strided(at, s), 0.0, 2, 2),
    "pad": moved(lambda x: F.pad(x, (1, -1, 2, 0), value=2.5), lambda at, s: _inside((*at[:-2],
    at[-2] - 2, at[-1] - 1), s), 2.5),
    "reflect": moved(lambda x: F.pad(x, (1, 1), "reflect"), lambda at, s: (*at[:-1],
    _mirror(at[-1] - 1, s[-1])), 0.0, 3, 3),
    "replicate": moved(lambda x: F.pad(x, (3, 2), "replicate"), lambda at, s: (*at[:-1],
    _clip(at[-1] - 3, s[-1])), 0.0, 3, 3),
    "circular": moved(lambda x: F.pad(x, (1, 1), "circular"), lambda at, s: (*at[:-1],
    (at[-1] - 1) % s[-1]), 0.0, 3, 3),
    "index": moved(lambda x: x[1, ::2, None], lambda at, s: (1, 2 * at[0], *at[2:])),
    "slice_scatter": moved(lambda x: x.slice_scatter(x.flip(0)[1:], 0, 1), lambda at,
    s: (at[0] and s[0] - 1 - at[0], *at[1:])),
    "gather": indexed(lambda x, i: x.gather(1, i), lambda at, x, i: x[_with(at, i[at])]),
    "take": indexed(lambda x, i: x.take(i - 1), lambda at, x, i: x.reshape(-1)[i[at] - 1]),
    "masked_fill": indexed(lambda x, i: x.masked_fill(i == 0, -1.5), lambda at, x, i: Fraction(-3,
    2) if not i[at] else x[at]),
    "scatter_add": indexed(lambda x, i: x.scatter_add(1, i, x), _scattered),
    "index_add": added(lambda x, i, y: x.index_add(0, i, y)),
    "index_put": added(lambda x, i, y: x.index_put((i,), y, accumulate=True)),
    **{f"{how} {own}": reduced(how, own) for how in ("sum", "prod", "mean", "amax",
    "amin") for own in (True, False)},
}  # fmt: skip


test_enclosures_hold_the_exact_result, test_enclosures_hold_the_exact_result_many_times = (
    enclosure_tests(ROWS)
)


def test_gradients_of_products_and_extremes_are_those_of_the_definition() -> None:
    """By each factor the product of the others, zeros among them; an extreme's is shared among
    equals that took part."""
    x = torch.tensor([2.0, 5.0, 7.0], dtype=torch.float64)
    y = torch.tensor([0.0, 3.0, 11.0, 11.0], dtype=torch.float64)
    index = torch.tensor([0, 0, 1, 1])
    by_x, by_y = slopes(lambda a, b: a.scatter_reduce(0, index, b, "prod"), x, y)
    assert [float(v) for v in by_x] == [0.0, 2 * 121.0, 3.0]
    assert [float(v) for v in by_y] == [6.0, 0.0, 110.0, 110.0]
    by_x, by_y = slopes(
        lambda a, b: a.scatter_reduce(0, index, b, "amax", include_self=False), x, y
    )
    assert [float(v) for v in by_x] == [0.0, 0.0, 3.0]
    assert [float(v) for v in by_y] == [0.0, 1.0, 1.0, 1.0]


def test_an_extreme_without_what_was_there_is_none_of_it() -> None:
    """torch 2.13 counts the overwritten 3 among those that share, and gives a half."""
    x, y = torch.tensor([3.0], dtype=torch.float64), torch.tensor([3.0, 1.0], dtype=torch.float64)
    by_x, by_y = slopes(
        lambda a, b: a.scatter_reduce(0, torch.tensor([0, 0]), b, "amax", include_self=False), x, y
    )
    assert [float(v) for v in (*by_x, *by_y)] == [0.0, 1.0, 0.0]


def test_the_gradient_of_as_strided_scatter_is_of_what_is_left() -> None:
    """torch 2.13 gives that of the places that were overwritten."""
    x, y = torch.zeros(2, 2, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
    by_x, by_y = slopes(lambda a, b: torch.as_strided_scatter(a, b, (1, 1), (2, 1), 0), x, y)
    assert [float(v) for v in by_x.reshape(-1)] == [0.0, 2.0, 3.0, 4.0]
    assert float(by_y[0, 0]) == 1.0


def test_special_numbers_are_moved_as_they_are() -> None:
    special = torch.tensor(
        [[float("nan"), -0.0], [float("inf"), -float("inf")]], dtype=torch.float64
    )
    found = traced(lambda x: x.flip(0), special)[0]
    assert [str(v) for v in found.reshape(-1)] == ["inf", "-inf", "nan", "-0.0"]
    added_up = traced(lambda x, i: x.scatter_add(1, i, x), special, torch.tensor([[0, 1], [1, 0]]))[
        0
    ]
    assert [str(v) for v in added_up.reshape(-1)] == ["nan", "-0.0", "nan", "nan"]


def test_what_is_written_twice_is_unsure() -> None:
    x = torch.zeros(3, dtype=torch.float64)
    with pytest.raises(Unknowable, match="twice"):
        traced(
            lambda a: a.index_copy(
                0, torch.tensor([1, 1]), torch.tensor([1.0, 2.0], dtype=torch.float64)
            ),
            x,
        )


def test_gradients_of_places_in_strided_memory_are_not_proved() -> None:
    """They are traced on contiguous copies, in which the places are others."""
    x = {"tensor": {"base": [25], "dtype": "float64", "stop": 50, "values": ["normal", 0.0, 1.0],
                    "view": [["slice", 0, 0, 25, 2]]}}  # fmt: skip
    strided = {"operator": "as_strided", "dtype": "float64", "kwargs": {}, "cotangent": 7}
    case = Case.from_json({**strided, "args": [x, [2, 2], [5, 3], 4]})
    (result,) = evaluate(case, [resolve("cpu")], load(), directions=("backward",))
    assert result.verdict.value == "inconclusive", result.explanation
