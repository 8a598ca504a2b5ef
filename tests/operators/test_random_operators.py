"""Random operators: what a distribution cannot give, or hardly ever gives, is a failure; everything
else is healthy."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import consistency
from consistency.diagnose.evaluation import evaluate
from consistency.judge.tolerances import load
from consistency.operators import distribution_tests, dropout, random
from consistency.operators.declare import Operator
from tests.support.running import unshrunk

pytestmark = pytest.mark.usefixtures("drawn_once")

Deed = Callable[..., Any]
OPERATORS = {operator.name: operator for operator in (*random.OPERATORS, *dropout.OPERATORS)}


class Doing(consistency.Backend):
    """``deed(run, *args, **kwargs)`` in place of torch's own, which ``run`` is."""

    name = "mine"

    def __init__(self, deed: Deed) -> None:
        self.deed = deed

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self.deed(functools.partial(super().call, operator), args, kwargs)


def run_with(deed: Deed, operator: str, dtype: str = "", examples: int = 30) -> consistency.Run:
    dtypes = [dtype or OPERATORS[operator].dtypes[0]]
    return unshrunk(
        operators=[operator],
        backends=[Doing(deed)],
        dtypes=dtypes,
        directions=["forward"],
        examples=examples,
    )


# Planted. Where nothing is drawn (evaluation), torch's own answer is given.


def drawn(args: Sequence[Any]) -> bool:
    return len(args) > 2 and bool(args[2]) and args[1] not in (0.0, 1.0)


def unscaled(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return run(args, kwargs) * (1.0 - args[1]) if drawn(args) else run(args, kwargs)


def keeps_everything(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return args[0] / (1.0 - args[1]) if drawn(args) else run(args, kwargs)


def the_wrong_way_round(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Keeps a share of p, with the right scale."""
    x, p, training = args
    return (
        run([x, 1.0 - p, training], kwargs) * (p / (1.0 - p)) if drawn(args) else run(args, kwargs)
    )


def one_mask_for_all_rows(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    x, p, training = args
    mask = run([torch.ones_like(x[:1] if x.ndim > 1 else x), p, training], kwargs)
    return x * mask if drawn(args) else run(args, kwargs)


def by_element(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Single numbers are dropped instead of channels."""
    return F.dropout(*args)


def plain_dropout(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return F.dropout(*args)


def another_mask(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return run(args, kwargs)[0], run(args, kwargs)[1]


def one_slope(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """As in evaluation: possible, but not drawn."""
    return F.rrelu(*args, **{**kwargs, "training": False})


def times(factor: float) -> Deed:
    return lambda run, args, kwargs: run(args, kwargs) * factor


def plus(number: float) -> Deed:
    return lambda run, args, kwargs: run(args, kwargs) + number


def constant(number: float) -> Deed:
    return lambda run, args, kwargs: torch.full_like(run(args, kwargs), number)


def half_twice(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The second half repeats the first, as of threads with the same seed."""
    numbers = run(args, kwargs)
    flat = numbers.reshape(-1)
    half = flat.numel() // 2
    return torch.cat([flat[:half], flat[:half], flat[2 * half :]]).reshape(numbers.shape)


def reaches_high(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    low, high, *rest = args
    return run([low, high + 1, *rest], kwargs)


def never_low(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return run(args, kwargs).clamp(min=args[0] + 1)


def only_low(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return torch.full_like(run(args, kwargs), args[0])


def in_order(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return torch.arange(args[0], **kwargs)


def twice_the_same(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A permutation in which one number stands for another."""
    order = run(args, kwargs)
    order[:1] = order[-1:]
    return order


def means_only(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return run([args[0], torch.ones_like(args[1])], kwargs)


def rounded_rates(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return args[0].round()


def complement(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return run([1.0 - args[0]], kwargs)


def all_alike(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Weights are ignored."""
    return run([torch.ones_like(args[0]), *args[1:]], kwargs)


def always_replaced(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return run([args[0], args[1], True], kwargs)


def overwritten(fill: Callable[[Tensor], Tensor]) -> Deed:
    def deed(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return args[0].copy_(fill(run(args, kwargs)))

    return deed


def beside(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Strides are ignored: what lies between the view's elements is overwritten, too."""
    result = run(args, kwargs)
    if not result.is_contiguous():
        result.as_strided(
            (result.untyped_storage().nbytes() // result.element_size(),), (1,), 0
        ).uniform_()
    return result


def returned_only(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return run([args[0].clone(), *args[1:]], kwargs)


PLANTED: dict[str, tuple[Deed, ...]] = {
    "nn.functional.dropout": (unscaled, keeps_everything, the_wrong_way_round,
    one_mask_for_all_rows, times(0.0)),
    "nn.functional.dropout1d": (unscaled, keeps_everything, the_wrong_way_round, by_element),
    "nn.functional.dropout2d": (unscaled, keeps_everything, by_element, times(0.0)),
    "nn.functional.dropout3d": (unscaled, keeps_everything, by_element),
    "nn.functional.alpha_dropout": (plain_dropout, keeps_everything, times(1.1)),
    "native_dropout": (another_mask,),
    "nn.functional.rrelu": (one_slope, times(-1.0)),
    "bernoulli": (complement, constant(1.0), constant(0.5), times(2.0)),
    "poisson": (rounded_rates, constant(0.0), plus(1.0), plus(0.5)),
    "multinomial": (all_alike, always_replaced, plus(1), constant(0)),
    "normal": (means_only, plus(0.5), times(1.25), constant(math.nan)),
    "rand": (constant(0.25), times(0.5), plus(0.25), times(2.0), half_twice),
    "randn": (times(1.25), plus(0.25), constant(0.0), half_twice, constant(math.inf)),
    "randint": (reaches_high, only_low, never_low),
    "randperm": (in_order, twice_the_same, plus(1)),
    "uniform_": (overwritten(torch.zeros_like), overwritten(lambda x: x * 0.5), beside,
    returned_only),
    "normal_": (overwritten(lambda x: x * 1.5), overwritten(lambda x: x + 1.0), beside),
    "exponential_": (overwritten(lambda x: x * 2.0), overwritten(lambda x: -x),
    overwritten(torch.ones_like)),
    "log_normal_": (overwritten(torch.log), overwritten(lambda x: x * 1.5), beside, returned_only),
    "cauchy_": (overwritten(lambda x: x * 4.0), overwritten(torch.ones_like), returned_only),
    "geometric_": (overwritten(lambda x: x - 1), overwritten(torch.ones_like), returned_only),
    "bernoulli_": (overwritten(lambda x: 1 - x), overwritten(torch.ones_like), returned_only),
    "random_": (overwritten(lambda x: x + 1), overwritten(torch.zeros_like), returned_only),
    "rand_like": (constant(0.25), times(0.5), plus(0.25), half_twice),
    "randn_like": (times(1.25), plus(0.25), constant(0.0), half_twice),
    "randint_like": (plus(1), constant(0)),
}  # fmt: skip


def test_every_random_operator_has_planted_faults() -> None:
    assert PLANTED.keys() == OPERATORS.keys()


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("operator", "deed"), [(name, deed) for name, deeds in PLANTED.items() for deed in deeds]
)
def test_faults_are_noticed(operator: str, deed: Deed) -> None:
    run = run_with(deed, operator)
    found = [failure for failure in run.failures if "distribut" in failure.explanation]
    assert found
    assert {failure.verdict.value for failure in found} == {"divergent"}
    assert not any(
        failure.cause for failure in found
    )  # that another run gives other numbers explains nothing


def test_the_sentence_tells_the_impossible_from_the_unlikely() -> None:
    assert any(
        "numbers that its distribution does not have" in f.explanation
        for f in run_with(plus(0.5), "poisson").failures
    )
    assert any(
        "not distributed as it should be" in f.explanation
        for f in run_with(half_twice, "randn").failures
    )


# Healthy.


def again(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Other numbers than the CPU's."""
    torch.rand(7)
    return run(args, kwargs)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("operator", OPERATORS)
def test_other_numbers_are_as_good(operator: str) -> None:
    for dtype in OPERATORS[operator].dtypes:
        run = run_with(again, operator, dtype, examples=12)
        assert not run.failures, run.failures[0].explanation
        assert any(result.verdict.passes for result in run.results)


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_case_gives_the_same_numbers_whatever_ran_before(operator: str) -> None:
    case = run_with(again, operator, examples=3).results[-1].case
    seen: list[Any] = []

    def noting(run: Deed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        seen.append(run(args, kwargs))
        return seen[-1]

    torch.manual_seed(5)
    before = torch.get_rng_state()
    for _ in range(2):
        evaluate(case, [Doing(noting)], load(), directions=["forward"])
        torch.rand(1)
        torch.set_rng_state(before)
    torch.testing.assert_close(seen[0], seen[-1], rtol=0.0, atol=0.0, equal_nan=True)
    assert torch.equal(torch.get_rng_state(), before)


# The tests of distributions.


@pytest.mark.parametrize("n", [0, 1, 2, 10, 100, 10000])
def test_healthy_samples_of_any_size_pass(n: int) -> None:
    source = torch.Generator().manual_seed(n)
    for _ in range(200):
        u = torch.rand((n,), generator=source, dtype=torch.float64)
        assert distribution_tests.uniform(u)
        assert distribution_tests.normal(torch.randn((n,), generator=source, dtype=torch.float64))
        assert distribution_tests.share(u < 0.01, 0.01)
        assert distribution_tests.total(torch.poisson(u * 0.1, generator=source), u * 0.1)


def test_a_share_is_judged_by_how_rare_it_is() -> None:
    ones = torch.ones(64, dtype=torch.bool)
    assert distribution_tests.share(ones[:20], 0.5)  # once in a million
    assert not distribution_tests.share(ones[:40], 0.5)
    assert not distribution_tests.share(ones[:1], 0.0)  # never
    assert distribution_tests.share(~ones, 0.0)
    assert distribution_tests.share(ones, torch.full((64,), 0.9))


def test_equal_rows_are_noticed() -> None:
    row = torch.rand(64, generator=torch.Generator().manual_seed(0)) < 0.5
    assert distribution_tests.unrelated(row, 0.5)
    assert not distribution_tests.unrelated(row.expand(8, 64), 0.5)
    assert not distribution_tests.unrelated(torch.cat([row, row]), 0.5)
    assert distribution_tests.unrelated(
        row.expand(8, 64), 0.5, torch.zeros(8, 64, dtype=torch.bool)
    )
