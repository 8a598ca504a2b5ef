"""Fills: the same call with other numbers, whose signature is the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import Literal, TensorRecipe
from consistency.generate import exhaustive, search
from consistency.generate.fills import fills
from consistency.generate.materialize import prepare


def layout(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset()


@pytest.mark.parametrize("name", ["add", "matmul", "gather", "linalg.cholesky", "softmax"])
def test_signature_stays_and_numbers_change(name: str) -> None:
    operator = operators.get(name)
    changed = 0
    for case in search.batch(operator, "float32", 6, 0):
        filled = list(fills(case, 4))
        assert filled[0] is case
        assert len({one.id for one in filled}) == len(filled)
        first = prepare(case).build().tensors
        for other in filled[1:]:
            built = prepare(other).build()
            operator(*built.args, **built.kwargs)  # still a call that torch can make
            assert [layout(t) for t in built.tensors] == [layout(t) for t in first]
            changed += any(
                not torch.equal(new, old) for new, old in zip(built.tensors, first, strict=True)
            )
    assert changed >= 12


def test_indices_stay() -> None:
    index = TensorRecipe((4,), "int64", ("permutation",), 4)
    case = Case("take", "float32", (TensorRecipe((4,), "float32", stop=9), index))
    assert {tensors.args[1] for tensors in fills(case, 3)} == {index}


def test_special_values_stay() -> None:
    case = Case("exp", "float32", (TensorRecipe((4,), "float32", stop=9, special=((2, "nan"),)),))
    for filled in fills(case, 3):
        (x,) = prepare(filled).build().args
        assert x.isnan().tolist() == [False, False, True, False]


def test_what_has_no_other_numbers() -> None:
    literal = Literal(np.float32([1.0, 2.0]).tobytes(), "float32", (2,), (1,))
    assert len(list(fills(Case("exp", "float32", (literal,)), 5))) == 1
    assert len(list(fills(Case("ones", "float32", ((2, 3),)), 5))) == 1
    (case, *_) = exhaustive.cases(operators.get("exp"), "float16", all_kinds=False)
    assert len(list(fills(case, 5))) == 1
