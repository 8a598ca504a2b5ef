"""Cases without elements, of six dimensions and the like: sought where none is shipped."""

from __future__ import annotations

import math

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from tests.support.adequacy import search
from tests.support.adequacy.corners import CORNERS, corners, told_by
from tests.support.adequacy.operand_corners import OPERAND_CORNERS, operand_corners
from tests.support.adequacy.operand_corners import told_by as told_by_operand

MATRIX = TensorRecipe((4, 5), "float32", ("uniform", -1.0, 1.0), 5000)
OTHER = TensorRecipe((4, 5), "float32", ("uniform", -1.0, 1.0), 7000)


def test_each_corner_is_reached_once() -> None:
    found = list(corners(operators.get("exp"), [Case("exp", "float32", (MATRIX,))]))
    assert len(found) == len(CORNERS)
    for (told, _), case in zip(CORNERS, found, strict=True):
        assert told in told_by(case), told
    assert not list(corners(operators.get("exp"), [Case("exp", "float32", (MATRIX,)), *found]))


def test_each_corner_of_a_second_tensor_is_reached_once() -> None:
    base = Case("mul", "float32", (MATRIX, OTHER))
    found = list(operand_corners(operators.get("mul"), [base]))
    reached = [corner for case in found for number, corner in told_by_operand(case) if number]
    assert set(reached) == set(OPERAND_CORNERS)
    assert len(found) == len(OPERAND_CORNERS)
    assert all(case.tensors[0] == MATRIX for case in found)
    assert not list(operand_corners(operators.get("mul"), [base, *found]))


def test_an_index_keeps_its_numbers_and_may_be_zero_everywhere() -> None:
    places = TensorRecipe((4, 5), "int64", ("integers", 0, 3), 900)
    base = Case("gather", "float32", (MATRIX, 0, places))
    found = list(operand_corners(operators.get("gather"), [base]))
    reached = {corner for case in found for number, corner in told_by_operand(case) if number}
    assert reached == {"0 everywhere", "transposed", "expanded"}


def test_an_extremum_gets_one_extreme_everywhere() -> None:
    found = list(corners(operators.get("argmin"), [Case("argmin", "float32", (MATRIX,))]))
    everywhere = {t.values[1] for c in found for t in c.tensors if t.values[0] == "constant"}
    assert everywhere == {"inf", "-inf", "nan"}


def test_large_whole_numbers_stand_beside_a_plain_number() -> None:
    small = TensorRecipe((4, 5), "int64", ("integers", -4, 4), 5000)
    base = Case("remainder", "int64", (small, 3))
    (found,) = (
        case
        for case in corners(operators.get("remainder"), [base])
        if case.tensors[0].values[-1] == (2**63 - 1) // 2
    )
    assert found.args[1] == 3
    assert found not in list(corners(operators.get("remainder"), [base, found]))


def test_what_is_shipped_holds_them() -> None:
    for name in ("exp", "sum", "matmul"):
        cases = search.quick(operators.get(name), "float32")
        bases = [t.base for c in cases for t in c.tensors if isinstance(t, TensorRecipe)]
        assert any(0 in base for base in bases)
        assert any(math.prod(base) == 1 for base in bases)
