"""Unsigned integers of 16, 32 and 64 bits: who takes them, what is drawn, how they are judged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import consistency
from consistency import operators
from consistency.backends.numpy import powers
from consistency.core import bits
from consistency.core.dtypes import INTEGER_RANGE, WIDE_UNSIGNED
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe
from consistency.engine import engine
from consistency.engine.events import Judged
from consistency.generate.fill import fill
from consistency.generate.search import batch
from consistency.generate.varied import operand_dtypes
from consistency.operators import unsigned
from consistency.operators.definitions import ordered
from consistency.storage.corpus.corpus import Corpus

WIDTHS = {name: int(name[4:]) for name in WIDE_UNSIGNED}


def judged(case: Case, *backends: Any) -> list[Result]:
    config = engine.configure(
        [operators.get(case.operator)], backends, [case.dtype], ("forward",),
        shrink=False, corpus=Corpus("one", (case,)), explore=False,
    )  # fmt: skip
    return [r for e in engine.run(config) if isinstance(e, Judged) for r in e.results]


def clone_of(dtype: str, *values: Any, size: int = 1000) -> Case:
    return Case("clone", dtype, (TensorRecipe((size,), dtype, values, 5000),), {}, 0)


class OneMore(consistency.Backend):
    """The largest element is one less: what float64 does not tell apart beyond 2**53."""

    name = "one-more"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        numbers = super().call(operator, args, kwargs).numpy().copy()
        numbers[numbers.argmax()] -= 1
        return torch.from_numpy(numbers)


class Signed(consistency.Backend):
    """Numbers from half of the range on become the largest signed one."""

    name = "signed"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        result = super().call(operator, args, kwargs)
        if isinstance(result, tuple):  # values and places
            return self._signed(result[0]), *result[1:]
        return self._signed(result)

    @staticmethod
    def _signed(tensor: torch.Tensor) -> torch.Tensor:
        numbers = tensor.numpy()
        most = np.iinfo(f"i{numbers.itemsize}").max
        return torch.from_numpy(np.minimum(numbers, numbers.dtype.type(most)))


def test_who_takes_them() -> None:
    takes = {name for name, o in operators.registry().items() if "uint16" in o.dtypes}
    assert {"mul", "eq", "eq.out", "sort", "sort.method", "reshape", "floor_", "copy_"} <= takes
    assert not takes & {"add", "lt", "maximum", "acos_", "matmul", "mean"}
    for operator in operators.registry().values():
        assert len({*operator.dtypes} & {*WIDE_UNSIGNED}) in (0, 3)


def test_all_that_are_listed_exist() -> None:
    assert not {*unsigned._NAMES} - {*operators.registry()}


@pytest.mark.parametrize("name", ["mul", "eq", "clone", "sort", "sin", "bitwise_and", "cumsum"])
@pytest.mark.parametrize("dtype", WIDE_UNSIGNED)
def test_torch_computes_what_is_drawn(name: str, dtype: str) -> None:
    results = [r for c in batch(operators.get(name), dtype, 5) for r in judged(c, "cpu", "numpy")]
    assert not any(r.verdict.fails for r in results)
    assert any(r.verdict.passes for r in results if r.backend == "cpu")


@pytest.mark.parametrize("dtype", WIDE_UNSIGNED)
@pytest.mark.parametrize("kind", ["unsigned", "unsigned-powers"])
def test_both_halves_of_the_range_are_drawn(kind: str, dtype: str) -> None:
    numbers = fill(4096, dtype, (kind, WIDTHS[dtype]), 9000)
    assert numbers.dtype == dtype
    half = INTEGER_RANGE[dtype][1] // 2
    assert 0.2 < float((numbers > half).mean()) < 0.8 or kind == "unsigned-powers"
    assert (numbers > half).any()
    assert (numbers <= half).any()
    if kind == "unsigned-powers":
        assert {0, 1, half, half + 1, INTEGER_RANGE[dtype][1]} <= {*numbers.tolist()}


def test_integers_to_the_end_of_uint64() -> None:
    low, high = 2**64 - 4, 2**64 - 1
    assert {*fill(200, "uint64", ("integers", low, high), 9000).tolist()} == {*range(low, high + 1)}
    assert {*fill(200, "uint16", ("integers", -9, 9), 9000).tolist()} == {*range(10)}


def test_the_bits_of_bfloat16_are_told_from_uint16() -> None:
    pattern = np.array([0x7F80, 0x7FC0, 0x3F80, 0x0001], dtype=np.uint16)
    assert bits.finite(pattern, "bfloat16").tolist() == [False, False, True, True]
    assert bits.finite(pattern, "uint16").all()
    assert bits.holds_subnormals(pattern, "bfloat16", 2.0**-126)
    assert not bits.holds_subnormals(pattern, "uint16", 2.0**-126)


@pytest.mark.parametrize("dtype", WIDE_UNSIGNED)
def test_one_more_is_noticed_at_any_size(dtype: str) -> None:
    case = clone_of(dtype, "unsigned", WIDTHS[dtype])
    healthy, wrong = judged(case, "cpu", OneMore())
    assert healthy.verdict.value == "exact"
    assert wrong.verdict.value == "divergent"


@pytest.mark.parametrize("name", ["clone", "mul", "sort", "cat", "where"])
@pytest.mark.parametrize("dtype", WIDE_UNSIGNED)
def test_signed_arithmetic_is_noticed_by_what_is_shipped(name: str, dtype: str) -> None:
    from consistency.generate.shipped.cases import cases

    found = [r for c in cases(operators.get(name), dtype) for r in judged(c, "cpu", Signed())]
    assert any(r.verdict.fails for r in found if r.backend == "signed")
    assert not any(r.verdict.fails for r in found if r.backend == "cpu")


def test_what_torch_does_not_order_is_ordered_as_float64() -> None:
    numbers = torch.tensor([0, 2**63, 2**64 - 1], dtype=torch.uint64)
    assert (ordered(numbers) >= 2.0**63).tolist() == [False, True, True]
    assert ordered(torch.tensor([1], dtype=torch.int64)).dtype == torch.int64
    assert ordered(2).item() == 2


def test_no_operand_of_another_dtype_is_drawn() -> None:
    x = TensorRecipe((4,), "uint16", ("integers", 0, 9), 500)
    assert not [*operand_dtypes.of(Case("mul", "uint16", (x, x), {}, 0))]
    y = TensorRecipe((4,), "int16", ("integers", 0, 9), 500)
    drawn = operand_dtypes.of(Case("mul", "int16", (y, y), {}, 0))
    others = {tensor.dtype for case in drawn for tensor in case.tensors}
    assert "uint8" in others
    assert not others & {*WIDE_UNSIGNED}


def test_numpy_leaves_uint64_beside_int64_whole() -> None:
    assert powers.ldexp(np.array([2**40], np.uint64), np.array([3], np.int64)).dtype == np.float32
    huge = np.array([2**63], np.uint64)
    with np.errstate(over="ignore"):
        assert np.isinf(powers.ldexp(np.array([1.0], np.float32), huge)).all()
