"""Edges: the numbers at which a function or its gradient changes its kind are found, those in the
package are such numbers, and a case of every run has numbers around them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from consistency import operators
from consistency.core.dtypes import FORMATS
from consistency.core.recipe import TensorRecipe
from consistency.generate import edge_search, edges, exhaustive
from consistency.generate.fill import fill
from consistency.generate.materialize import prepare
from consistency.operators.declare import Operator

KNOWN = {
    ("exp", "float32"): (88.72284, -87.33655, -103.97208),
    ("exp", "float64"): (709.782713, -708.396419, -745.133219),
    ("exp2", "float32"): (128.0, 128.528778, -126.0, -150.0),
    ("exp2", "float64"): (1024.0, -1022.0, -1075.0),
    ("tanh", "float32"): (9.010914, -9.010914),
    ("tanh", "float64"): (19.0615475, -19.0615475),
    ("expm1", "float32"): (88.72284, -17.32868),
    ("expm1", "float64"): (709.782713,),
    ("sigmoid", "float32"): (17.32868, -87.33655, -103.97208),
    ("log1p", "float32"): (-1.0,),
    ("log1p", "float64"): (-1.0,),
    ("atanh", "float64"): (-1.0, 1.0),
    ("log", "float64"): (1.0,),
    ("special.erfcx", "float32"): (-9.382415,),
    ("erfc", "float32"): (9.194550, 10.0542),
    ("special.ndtr", "float32"): (-13.1466808, -14.3564024),
    ("lgamma", "float64"): (-1.0, -2.0, -3.0, 1.0, 2.0),
    ("digamma", "float32"): (-1.0, -2.0),
    ("half", "float32"): (65504.0, -65504.0),
    ("square", "float64"): (1.34078079e154, 1.49166815e-154),
    ("nn.functional.hardtanh", "float32"): (-1.0, 1.0),
}  # fmt: skip


def holds(found: tuple[float, ...], number: float) -> bool:
    return any(math.isclose(number, other, rel_tol=1e-6) for other in found)


@pytest.mark.parametrize(("name", "dtype"), KNOWN)
def test_known_edges_are_in_the_package(name: str, dtype: str) -> None:
    found = edges.edges(name, dtype)
    assert [number for number in KNOWN[name, dtype] if not holds(found, number)] == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "exp2", "tanh", "sigmoid", "log1p", "square", "half"])
def test_the_search_finds_what_is_in_the_package(name: str, dtype: str) -> None:
    """Up to the last bits, which hang on the processor."""
    found, kept = edge_search.find(operators.get(name), dtype), edges.edges(name, dtype)
    assert found == edge_search.find(operators.get(name), dtype)
    assert len(found) == len(kept)
    for new, old in zip(found, kept, strict=True):
        assert math.isclose(new, old, rel_tol=1e-5 if abs(old) > 1e-3 else 0.3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["neg", "abs", "sign", "positive", "nn.functional.relu", "neg_"])
def test_none_is_invented(name: str, dtype: str) -> None:
    assert edge_search.find(operators.get(name), dtype) == ()
    assert edges.edges(name, dtype) == ()


def test_what_sweeps_no_single_tensor_has_none() -> None:
    for name in ("atan2", "matmul", "exp.out", "ldexp"):
        assert edge_search.find(operators.get(name), "float32") == ()
    assert edge_search.find(operators.get("exp"), "float16") == ()


def with_edges() -> list[tuple[Operator, str]]:
    return [
        (operator, dtype)
        for operator, dtype in itertools.product(operators.registry().values(), exhaustive.STEP)
        if edges.edges(operator.name, dtype)
    ]


def test_the_package_holds_numbers_of_the_format_in_order() -> None:
    assert len(with_edges()) > 170
    for operator, dtype in with_edges():
        found = edges.edges(operator.name, dtype)
        assert len(found) <= edge_search.MOST
        assert list(found) == sorted(set(found))
        assert np.asarray(found).astype(dtype).astype(np.float64).tolist() == list(found)
        assert exhaustive.sweeps_one_tensor(operator, dtype)


def test_each_has_a_case_around_its_edges() -> None:
    """Next to each edge, on both sides, and far away."""
    for operator, dtype in with_edges():
        *_, case = exhaustive.cases(operator, dtype)
        assert exhaustive.is_exhaustive(case)
        place = next(i for i, t in enumerate(case.tensors) if exhaustive.is_swept(case, t))
        numbers = prepare(case).bases[place].astype(np.float64)
        assert numbers.size == edges.NUMBERS
        assert np.isfinite(numbers).all()
        assert operator.name not in exhaustive.UNSIGNED or (numbers >= 0).all()
        close = 2.0 ** -(FORMATS[dtype].precision // 2)
        for edge in edges.edges(operator.name, dtype):
            assert (numbers == edge).any()
            with np.errstate(over="ignore"):
                far = np.abs(numbers / edge - 1.0)
            for low, high in ((0.0, close), (close, 1.0)):
                apart = (far > low) & (far <= high)
                assert (apart & (numbers > edge)).any(), (operator.name, dtype, edge)
                assert (apart & (numbers < edge)).any(), (operator.name, dtype, edge)


def test_drawn_numbers_near_points_are_no_such_case() -> None:
    *_, case = exhaustive.cases(operators.get("exp"), "float32")
    near = case.with_tensors(
        [TensorRecipe((1536,), "float32", ("near", -1.0, 1.0, 0.5), stop=1536)]
    )
    assert not exhaustive.is_exhaustive(near)


@pytest.mark.parametrize("point", [1e-300, -2.5e-308, 1e-20])
def test_around_a_tiny_point_numbers_are_as_close(point: float) -> None:
    numbers = fill(4096, "float64", ("near", -1.0, 1.0, point), 4096)
    assert (numbers == point).any()
    assert (np.abs(numbers - point) <= abs(point)).all()
    assert ((numbers != point) & (np.abs(numbers / point - 1.0) < 1e-12)).any()
