"""The interface of ``sample`` functions: what they draw with, and the arguments they return, as
recipes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..core import recipe
from .domains import REAL, Domain


class Drawing(Protocol):
    """The methods that a ``sample`` function may call;
    :class:`consistency.generate.strategies.Draw` implements and documents them."""

    dtype: str

    @property
    def complex(self) -> bool: ...
    @property
    def floating(self) -> bool: ...
    def size(self, low: int = 1, high: int = 64) -> int: ...
    def shape(
        self, low: int = 0, high: int = 4, *, least: int = 1, most: int = 64, elements: int = 4096
    ) -> tuple[int, ...]: ...
    def broadcastable(self, shape: Sequence[int]) -> tuple[int, ...]: ...
    def choice(self, *options: Any) -> Any: ...
    def flag(self) -> bool: ...
    def integer(self, low: int, high: int) -> int: ...
    def number(self, low: float, high: float) -> float: ...
    def dim(self, shape: Sequence[int]) -> int: ...
    def dims(self, shape: Sequence[int], *, least: int = 1) -> tuple[int, ...]: ...
    def tensor(
        self,
        shape: Sequence[int],
        domain: Domain = REAL,
        *,
        dtype: str | None = None,
        values: tuple[Any, ...] | None = None,
        layout: bool = True,
        overlap: bool = True,
    ) -> recipe.TensorRecipe: ...
    def index(
        self, shape: Sequence[int], size: int, *, negative: bool = False, distinct: bool = False
    ) -> recipe.TensorRecipe: ...


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments of one call, as recipes."""

    args: tuple[recipe.Arg, ...]
    kwargs: dict[str, recipe.Arg]


def call(*args: recipe.Arg, **kwargs: recipe.Arg) -> Call:
    """The return value of a ``sample`` function: the arguments exactly as a user would write
    them."""
    return Call(args, kwargs)


Sample = Callable[[Any], Call]
