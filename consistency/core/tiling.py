"""How the tensors of a large case repeat: small ones, of which each is repeated along one
dimension, so that the case's recipe and its reference stay small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import RecipeError
from .text import shown

if TYPE_CHECKING:
    import torch

MAX_SIZE = 1 << 32  # elements of an enlarged tensor
BLOCK = 1 << 18  # elements that are compared at a time, which a cache holds

_KEYS = frozenset({"size", "period", "dims", "outs", "backward"})


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tensors of size ``period`` along a dimension, repeated there until it has ``size``; the last
    repetition may be incomplete.

    ``dims``: along which dimension each tensor among the arguments (in materializing order) is
    repeated, None where it is as its recipe says. ``outs``: along which dimension each returned
    value repeats likewise, None where it is the same for every number of complete repetitions.
    ``backward``: whether the gradients of the repeated tensors repeat, too.
    """

    size: int
    period: int
    dims: tuple[int | None, ...]
    outs: tuple[int | None, ...] = ()
    backward: bool = False

    @property
    def rest(self) -> int:
        """The size of the last, incomplete repetition; 0 if there is none."""
        return self.size % self.period

    @property
    def is_large(self) -> bool:
        """Whether there is more than what the reference is computed of."""
        return self.size > self.least

    @property
    def reduced(self) -> Tiling:
        """The same at its least size, whose outputs say what those of any size are."""
        return replace(self, size=self.least)

    @property
    def least(self) -> int:
        """The smallest size with a complete repetition and the same rest."""
        return self.period + self.rest

    def to_json(self) -> dict[str, Any]:
        return {
            "size": self.size,
            "period": self.period,
            "dims": list(self.dims),
            "outs": list(self.outs),
            "backward": self.backward,
        }

    @staticmethod
    def from_json(data: Any) -> Tiling:
        """Raises RecipeError."""
        if not isinstance(data, dict) or set(data) != _KEYS:
            raise RecipeError(f"a case's 'tiling' is an object with {', '.join(sorted(_KEYS))}")
        size, period = data["size"], data["period"]
        if type(data["backward"]) is not bool:
            raise RecipeError("expected true or false as 'backward' of a tiling")
        if type(size) is not int or type(period) is not int or not 1 <= period <= size <= MAX_SIZE:
            raise RecipeError(
                f"a tiling of size {shown(size)} and period {shown(period)}; both are whole "
                f"numbers, 1 ≤ period ≤ size ≤ {MAX_SIZE}"
            )
        return Tiling(size, period, _dims(data["dims"]), _dims(data["outs"]), data["backward"])


def _dims(values: Any) -> tuple[int | None, ...]:
    if not isinstance(values, list) or not all(
        v is None or (type(v) is int and 0 <= v < 16) for v in values
    ):
        raise RecipeError("the dimensions of a tiling are a list of whole numbers and nulls")
    return tuple(values)


def enlarged(shape: Sequence[int], dim: int, tiling: Tiling) -> tuple[int, ...]:
    """The shape of a tensor of this small shape after its repetition. Raises RecipeError if it
    does not repeat with the tiling's period."""
    if dim >= len(shape) or shape[dim] % tiling.period:
        raise RecipeError(
            f"a tensor of shape {list(shape)} does not repeat along dimension {dim} with period "
            f"{tiling.period}"
        )
    size = shape[dim] // tiling.period * tiling.size
    result = (*shape[:dim], size, *shape[dim + 1 :])
    total = 1
    for extent in result:
        total *= extent
    if total > MAX_SIZE:
        raise RecipeError(f"a tensor of {total} elements; a tiled one may have {MAX_SIZE}")
    return result


def repeated(tile: torch.Tensor, dim: int, tiling: Tiling) -> torch.Tensor:
    """``tile`` repeated along ``dim``, contiguous. Raises RecipeError."""
    whole = tile.new_empty(enlarged(tile.shape, dim, tiling))
    body, rest = split(whole, dim, tile.shape[dim])
    body.copy_(tile)
    if rest.numel():
        rest.copy_(tile.narrow(dim, 0, rest.shape[dim]))
    return whole


def split(whole: torch.Tensor, dim: int, period: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Views of the complete repetitions along ``dim``, which a new first dimension counts, and of
    the rest."""
    count, rest = divmod(whole.shape[dim], period)
    sizes = (*whole.shape[:dim], count, period, *whole.shape[dim + 1 :])
    stride = whole.stride()
    strides = (*stride[:dim], period * stride[dim], *stride[dim:])
    body = whole.as_strided(sizes, strides, whole.storage_offset()).movedim(dim, 0)
    return body, whole.narrow(dim, count * period, rest)


def differing(body: torch.Tensor, first: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """The blocks of a tensor in which the bits of some part along the first dimension are not
    those of ``first`` (bit patterns), with where each begins."""
    copies: torch.Tensor | None = None
    for start, block in blocks(body):
        if copies is None:
            copies = first.expand(len(block), *first.shape).contiguous()
        if not bit_patterns(block).equal(copies[: len(block)]):
            yield start, block


def blocks(body: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    """Parts of a tensor along its first dimension, with where each begins."""
    step = max(1, BLOCK // max(1, body[0].numel()))
    for start in range(0, body.shape[0], step):
        yield start, body[start : start + step]


def bit_patterns(tensor: torch.Tensor) -> torch.Tensor:
    """The bit patterns, so that NaN equals itself."""
    import torch

    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.dtype == torch.bool or not tensor.dtype.is_floating_point:
        return tensor
    widths = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.view(widths[tensor.element_size()])


def same_bits(base: torch.Tensor, tile: torch.Tensor, dim: int, tiling: Tiling) -> bool:
    """Whether a storage still holds a repeated tile."""
    try:
        whole = base.detach().view(enlarged(tile.shape, dim, tiling))
    except (RuntimeError, RecipeError):
        return False
    body, rest = split(whole, dim, tile.shape[dim])
    given = bit_patterns(tile.to(base.device))
    if next(differing(body, given), None) is not None:
        return False
    return bool((bit_patterns(rest) == given.narrow(dim, 0, rest.shape[dim])).all())
