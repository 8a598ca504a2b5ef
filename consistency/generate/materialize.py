"""From a recipe to tensors: fill the base from the bitstream, then apply the chain of views.

Arguments are rebuilt for every backend, so that unexpected writes affect only the backend itself.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..core import bits, dtypes, recipe
from ..core.model import Case
from ..core.recipe import Literal, TensorRecipe
from ..core.tiling import repeated, same_bits
from ..core.views import further_view, view_of
from ..errors import RecipeError, did_you_mean
from . import dtype_defaults
from .fill import fill

_WIDER = {torch.int32: torch.int64, torch.int16: torch.int64, torch.int8: torch.int64}
KEPT_BEFORE_VIEW = 64  # elements of its storage that a literal copy of a view keeps before it
Adjust = Callable[[torch.Tensor, int], torch.Tensor]
Gradients = (
    bool | tuple[int, ...]
)  # which floating tensors are leaves: all, none, or those at these positions


@dataclass(frozen=True)
class Materials:
    """The base arrays of a case's tensors, drawn once; every backend builds its own tensors from
    copies of them."""

    case: Case
    bases: tuple[np.ndarray[Any, Any], ...]
    cotangents: tuple[np.ndarray[Any, Any] | None, ...] = ()  # the literal ones

    @functools.cached_property
    def sha256(self) -> str:
        """Hash over every base's bytes (little endian), dtype, and the recipe's own line."""
        total = hashlib.sha256(self.case.line.encode("utf-8"))
        for base in (*self.bases, *(c for c in self.cotangents if c is not None)):
            total.update(base.astype(base.dtype.newbyteorder("<"), copy=False).tobytes())
        return total.hexdigest()

    @property
    def holds_special_values(self) -> bool:
        """Whether an input holds NaN or an infinity."""
        return any(
            (isinstance(tensor, Literal) or tensor.special or tensor.values[0] == "tokens")
            and not bits.finite(base, tensor.dtype).all()
            for tensor, base in zip(self.case.tensors, self.bases, strict=True)
        )

    @property
    def without_special_values(self) -> Materials:
        """The same with zeros in place of NaN and infinities."""
        bases = tuple(
            np.where(bits.finite(base, tensor.dtype), base, np.zeros((), base.dtype))
            for tensor, base in zip(self.case.tensors, self.bases, strict=True)
        )
        return replace(self, bases=bases)

    def build(
        self,
        dtype: str | None = None,
        *,
        device: str = "cpu",
        gradients: Gradients = False,
        adjust: Adjust | None = None,
        integers_too: bool | Collection[str] = False,
    ) -> Arguments:
        """Fresh tensors on ``device``. With ``dtype`` every floating tensor (and dtype argument) is
        converted to it, exactly.

        Complex ones become the complex dtype that belongs to it.

        ``integers_too`` converts the tensors of the case's own integer dtype as well (the sine of
        an int64 is a float), or those of the dtypes that it names. With ``gradients`` the floating
        tensors (or those at the given positions) are leaves that track gradients.
        ``adjust(base, position)`` may change the numbers first (for magnitudes and perturbations;
        reference runs only).
        """
        own = (self.case.dtype,) if integers_too else ()
        also = own if isinstance(integers_too, bool) else integers_too
        return Arguments(self, dtype, device, gradients, adjust, also)


def prepare(case: Case) -> Materials:
    """Draw the numbers of every tensor in ``case``. Raises RecipeError for an invalid recipe."""
    if case.dtype not in dtypes.TORCH:
        raise RecipeError(
            f"unknown dtype {case.dtype!r:.40}{did_you_mean(case.dtype, dtypes.TORCH)}"
        )
    recipes = [*recipe.tensors(case.args), *recipe.tensors(case.kwargs)]
    total = sum(math.prod(t.base) for t in recipes if isinstance(t, TensorRecipe))
    if total > recipe.MAX_ELEMENTS:
        raise RecipeError(
            f"the tensors of this case have {total} elements together; a recipe may have "
            f"{recipe.MAX_ELEMENTS}"
        )
    cotangents = tuple(
        None if cotangent is None else _base(cotangent) for cotangent in case.cotangents
    )
    return Materials(case, tuple(_base(tensor) for tensor in recipes), cotangents)


def _base(tensor: TensorRecipe | Literal) -> np.ndarray[Any, Any]:
    if isinstance(tensor, TensorRecipe):
        return fill(
            math.prod(tensor.base), tensor.dtype, tensor.values, tensor.stop, tensor.special
        )
    if tensor.dtype not in dtypes.TORCH:
        raise RecipeError(
            f"literal tensor of unknown dtype {tensor.dtype!r:.40}; known: "
            f"{', '.join(dtypes.TORCH)}"
        )
    try:
        flat = bits.array_of_bytes(tensor.data, tensor.dtype)
    except ValueError as error:
        raise RecipeError(f"literal tensor of dtype {tensor.dtype!r:.80}: {error}") from None
    if tensor.dtype == "bool" and (flat.view(np.uint8) > 1).any():
        raise RecipeError("literal tensor of dtype 'bool' holds bytes other than 0 and 1")
    return flat


class Arguments:
    """The arguments of one call. ``bases`` are the storages (what an in-place operator really
    writes to), ``tensors`` the views."""

    def __init__(
        self,
        materials: Materials,
        dtype: str | None,
        device: str,
        gradients: Gradients,
        adjust: Adjust | None,
        also: Collection[str],
    ) -> None:
        self.materials = materials
        self.adjust = adjust
        self._also = {dtypes.TORCH[name] for name in also if name in dtypes.TORCH}
        self._convert = (
            {}
            if dtype is None
            else {True: dtypes.TORCH[dtypes.beside(dtype)], False: dtypes.TORCH[dtype]}
        )
        self._device = device
        self._gradients = gradients
        self._source = iter(materials.bases)
        self.bases: list[torch.Tensor] = []
        self.tensors: list[torch.Tensor] = []
        # The positions of views of earlier tensors, with these and how they are viewed.
        self.shared: dict[int, tuple[int, tuple[recipe.Step, ...]]] = {}
        self.args: list[Any] = [self._make(arg) for arg in materials.case.args]
        self.kwargs: dict[str, Any] = {
            name: self._make(arg) for name, arg in materials.case.kwargs.items()
        }
        case = materials.case
        yours = (
            case.source == f"yours/{case.operator}"
        )  # a user's function that happens to be called like one of torch's
        if dtype not in (None, case.dtype) and case.dtype in dtypes.FORMATS and not yours:
            dtype_defaults.give(case.operator, case.dtype, self.args, self.kwargs)

    def _make(self, arg: recipe.Arg) -> Any:
        match arg:
            case TensorRecipe() | Literal():
                return self._tensor(arg)
            case recipe.DType(name):
                if name not in dtypes.TORCH:
                    raise RecipeError(
                        f"unknown dtype {name!r:.40}{did_you_mean(name, dtypes.TORCH)}"
                    )
                return (
                    self._convert[name in dtypes.PARTS]
                    if self._convert and dtypes.floats(name)
                    else dtypes.TORCH[name]
                )
            case recipe.Index(start, stop, step):
                return slice(start, stop, step)
            case recipe.MemoryFormat(name):
                if name not in recipe.MEMORY_FORMATS:
                    raise RecipeError(
                        f"unknown memory format {name!r:.40}; known: "
                        f"{', '.join(recipe.MEMORY_FORMATS)}"
                    )
                return getattr(torch, name)
            case tuple():
                return tuple(self._make(item) for item in arg)
            case list():
                return [self._make(item) for item in arg]
        return arg

    @property
    def leaves(self) -> list[int]:
        """The positions of the tensors whose gradients are asked for."""
        return [i for i, t in enumerate(self.tensors) if t.requires_grad and i not in self.shared]

    def _tensor(self, arg: TensorRecipe | Literal) -> torch.Tensor:
        raw = next(self._source)
        if isinstance(arg, TensorRecipe) and arg.shared and self.materials.case.tiling is None:
            recipes = self.materials.case.tensors
            owner = recipe.owner(recipes, len(self.tensors))
            if owner is not None:
                return self._in_the_memory_of(owner, recipes[owner].view, arg)
        base = bits.to_tensor(raw.copy(), arg.dtype)
        floats = base.dtype.is_floating_point or base.is_complex()
        if self._convert:
            unscaled = _WIDER.get(base.dtype, base.dtype)
            base = base.to(
                self._convert[base.is_complex()] if floats or base.dtype in self._also else unscaled
            )
        if self.adjust is not None and (base.dtype.is_floating_point or base.is_complex()):
            base = self.adjust(base, len(self.bases))
        if self._device != "cpu":
            base = base.to(self._device)
        base, view = self._tiled(base, arg)
        self.bases.append(base)
        if self._tracks(len(self.tensors)) and arg.leaf and floats:
            view = view.detach().requires_grad_(True)
        self.tensors.append(view)
        return view

    def _in_the_memory_of(
        self, owner: int, before: tuple[recipe.Step, ...], arg: TensorRecipe
    ) -> torch.Tensor:
        """A view of an earlier tensor, whose gradient goes through it."""
        steps = arg.view[len(before) :]
        view = further_view(self.tensors[owner], steps)
        self.shared[len(self.tensors)] = owner, steps
        self.bases.append(self.bases[owner])
        self.tensors.append(view)
        return view

    def _tiled(
        self, base: torch.Tensor, arg: TensorRecipe | Literal
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """A storage and its view; in a large case repeated."""
        tiling, dim = self.materials.case.tiling, self._dim(len(self.tensors))
        if tiling is None or dim is None:
            return base, view_of(base, arg)
        whole = repeated(view_of(base, arg), dim, tiling)
        return whole.reshape(-1), whole

    def cotangent(self, position: int) -> torch.Tensor | None:
        """The literal cotangent of the returned value number ``position``, on the CPU in its own
        dtype, or None."""
        recipe = (
            self.materials.case.cotangents[position]
            if position < len(self.materials.case.cotangents)
            else None
        )
        raw = self.materials.cotangents[position] if recipe is not None else None
        if recipe is None or raw is None:
            return None
        return view_of(bits.to_tensor(raw.copy(), recipe.dtype), recipe)

    def _tracks(self, position: int) -> bool:
        if self.materials.case.tiling is not None and self._dim(position) is None:
            return False  # its gradient sums over the repetitions
        return self._gradients if isinstance(self._gradients, bool) else position in self._gradients

    def changed(self, materials: Materials) -> tuple[int, ...]:
        """Which tensors' storages no longer hold the bits they were given (by position)."""
        return tuple(
            position
            for position, (base, raw) in enumerate(zip(self.bases, materials.bases, strict=True))
            if not self._same(position, base, raw, materials.case)
        )

    def _same(
        self, position: int, base: torch.Tensor, raw: np.ndarray[Any, Any], case: Case
    ) -> bool:
        tiling = case.tiling
        dim = None if tiling is None else self._dim(position)
        if tiling is None or dim is None:
            return _same_bits(base, raw)
        arg = case.tensors[position]
        tile = view_of(bits.to_tensor(raw.copy(), arg.dtype), arg)
        return same_bits(base, tile, dim, tiling)

    def _dim(self, position: int) -> int | None:
        """The dimension along which a tensor of a tiled case is repeated."""
        tiling = self.materials.case.tiling
        dims = () if tiling is None else tiling.dims
        return dims[position] if position < len(dims) else None


def _same_bits(base: torch.Tensor, raw: np.ndarray[Any, Any]) -> bool:
    array = bits.to_array(base.detach().cpu())
    return array.nbytes == raw.nbytes and np.array_equal(
        bits.unsigned_patterns(array), bits.unsigned_patterns(raw)
    )


def leaves(case: Case, gradients: Gradients) -> list[int]:
    """The positions of the tensors that track gradients when the case is built with
    ``gradients``."""
    return [
        position
        for position, tensor in enumerate(case.tensors)
        if tensor.leaf
        and dtypes.floats(tensor.dtype)
        and (gradients if isinstance(gradients, bool) else position in gradients)
    ]


def literal(tensor: torch.Tensor, *, before: int = 0, behind: int = 0) -> Literal:
    """A literal argument with the bits and strides of ``tensor`` (brought to the CPU; gradients are
    not kept).

    Its storage begins at the tensor's first element, or at most ``before`` elements before it,
    which is its offset then, and ends at the last one, or at most ``behind`` after it. Raises
    RecipeError for a dtype or kind of tensor that recipes do not hold.
    """
    name = dtypes.name_of(tensor.dtype)
    if (
        name not in dtypes.TORCH
        or tensor.layout != torch.strided
        or tensor.is_quantized
        or tensor.is_nested
        or tensor.is_meta
    ):
        kind = f"a tensor of dtype {name}, layout {tensor.layout}, device {tensor.device}"
        raise RecipeError(
            f"{kind} cannot be part of a recipe; give a strided one with numbers in it"
        )
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    extent = (
        sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
        if tensor.numel()
        else 0
    )
    offset = min(int(tensor.storage_offset()), before) if tensor.numel() else 0
    start = tensor.storage_offset() - offset
    held = tensor.untyped_storage().nbytes() // tensor.element_size() - start
    size = min(offset + extent + behind, max(held, offset + extent)) if tensor.numel() else 0
    flat = torch.as_strided(tensor, (size,), (1,), start)
    return Literal(bits.to_bytes(flat), name, tuple(tensor.shape), tuple(tensor.stride()), offset)


def from_python(arg: Any) -> recipe.Arg:
    """A user's own argument (tensors, dtypes, slices, nested lists) as part of a recipe."""
    match arg:
        case torch.Tensor():
            return literal(arg)
        case torch.dtype():
            return recipe.DType(dtypes.name_of(arg))
        case slice():
            return recipe.Index(arg.start, arg.stop, arg.step)
        case torch.memory_format():
            return recipe.MemoryFormat(str(arg).removeprefix("torch."))
        case list():
            return [from_python(item) for item in arg]
        case tuple():
            return tuple(from_python(item) for item in arg)
        case np.generic():
            return arg.item()
    return arg


def case_of(
    name: str, dtype: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], cotangent: int = 0
) -> Case:
    """The case that calls ``name`` with a user's own tensors."""
    return Case(
        name,
        dtype,
        tuple(from_python(a) for a in args),
        {k: from_python(v) for k, v in kwargs.items()},
        cotangent,
    )
