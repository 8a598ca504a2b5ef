"""Tilings: tensors that repeat, their JSON, and what is not one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.core.tiling import Tiling, blocks, enlarged, repeated, same_bits
from consistency.errors import RecipeError
from consistency.generate.materialize import prepare

TILING = Tiling(12, 5, (0, None), (0,), True)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("size", [5, 6, 10, 14])
def test_a_tensor_repeats_along_a_dimension(dim: int, size: int) -> None:
    tile = torch.arange(125.0).view(5, 5, 5)
    whole = repeated(tile, dim, Tiling(size, 5, ()))
    assert whole.is_contiguous()
    assert torch.equal(whole, tile.index_select(dim, torch.arange(size) % 5))
    assert same_bits(whole.view(-1), tile, dim, Tiling(size, 5, ()))
    whole.view(-1)[-1] += 1
    assert not same_bits(whole.view(-1), tile, dim, Tiling(size, 5, ()))


def test_nan_is_the_same_as_itself() -> None:
    tile = torch.tensor([float("nan"), 1.0])
    assert same_bits(repeated(tile, 0, Tiling(9, 2, ())), tile, 0, Tiling(9, 2, ()))


def test_blocks_hold_everything_once() -> None:
    body = torch.arange(3 << 21).view(-1, 3)
    assert sum(len(block) for _, block in blocks(body)) == len(body)
    assert [int(block[0, 0]) for _, block in blocks(body)] == [3 * at for at, _ in blocks(body)]


def test_a_tiled_case_survives_json() -> None:
    tensors = (TensorRecipe((5, 2), "float32"), TensorRecipe((3,), "float32"))
    case = Case("add", "float32", tensors, tiling=TILING)
    assert Case.from_line(case.line) == case
    assert case.digest != Case("add", "float32", tensors).digest
    assert "tiling" not in Case("add", "float32", tensors).line
    built = prepare(case).build()
    assert [tuple(tensor.shape) for tensor in built.tensors] == [(12, 2), (3,)]
    assert built.changed(prepare(case)) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"size": 4}, {"size": 1 << 33}, {"size": True}, {"period": 0}, {"period": 2.0},
        {"dims": 3}, {"dims": [-1]}, {"dims": ["0"]}, {"outs": [99]}, {"backward": 1},
        {"more": 1},
    ],
)  # fmt: skip
def test_what_is_no_tiling_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(RecipeError):
        Tiling.from_json(TILING.to_json() | change)


def test_sizes_beyond_the_limit_are_refused() -> None:
    with pytest.raises(RecipeError, match="a tiled one may have"):
        enlarged((5, 1 << 20), 0, Tiling(1 << 30, 5, ()))
    with pytest.raises(RecipeError, match="does not repeat"):
        enlarged((4, 2), 0, TILING)
