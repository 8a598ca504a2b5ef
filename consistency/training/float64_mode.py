"""Dispatch mode that runs a model in float64: whatever asks for fewer bits gets float64, and a
replica has every number perturbed by half an ulp.

The model's own code runs as it stands; below autograd each operator is handed float64 only. Where
the tested model works in another format (autocast, ``.half()``) a first pass has noted it, by
module and operator: a replica is perturbed by half an ulp of that format.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..core import dtypes
from ..core.trees import flatten, map_leaves, map_tensors
from ..operators.catalog.signature import draws_numbers
from ..reference.perturbation import ReplicaPerturbation
from .op_facts import WIDER, OpFacts, facts_of, written
from .sum_magnitudes import SHARE, sizes
from .trace.modules import Modules

SINGLE = 24
_DTYPE_OF_PRECISION = {24: torch.float32, 11: torch.float16, 8: torch.bfloat16, 53: torch.float64}


class WorkingFormats:
    """Significand bits of what operators return in the tested model, by (module, operator) and by
    module: the fewest seen."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], int] = {}
        self.uniform = True  # everything is float32

    def record(self, module: str, base: str, tensor: torch.Tensor) -> None:
        form = dtypes.form_of(dtypes.name_of(tensor.dtype))
        if form is not None:
            self.uniform = self.uniform and form.precision == SINGLE
            for key in ((module, base), (module, "")):
                self._found[key] = min(self._found.get(key, 64), form.precision)

    def of(self, module: str, base: str) -> int:
        return self._found.get((module, base)) or self._found.get((module, ""), SINGLE)


class FormatRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the formats that the tested model works in."""

    def __init__(self, formats: WorkingFormats, modules: Modules) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._formats, self._modules, self.paused = formats, modules, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not self.paused and getattr(func, "namespace", "") == "aten":
            known = facts_of(func)
            if not known.view:
                name = self._modules.name()
                for tensor in _fresh(known, out, args, kwargs or {}):
                    self._formats.record(name, known.base, tensor)
        return out


class Float64Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs everything in float64. With ``perturbation`` what comes out of each operator that rounds
    is moved by half an ulp."""

    def __init__(
        self,
        formats: WorkingFormats,
        modules: Modules,
        perturbation: ReplicaPerturbation | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._formats, self._modules, self._perturbation = formats, modules, perturbation
        self.paused = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.paused or getattr(func, "namespace", "") != "aten":
            return func(*args, **kwargs)
        known = facts_of(func)
        # The name is asked for even where nobody needs it: it is learned going forward what a
        # gradient goes back through.
        precision = (
            SINGLE if self._formats.uniform else self._formats.of(self._modules.name(), known.base)
        )
        if known.random and draws_numbers(func, args, kwargs):
            return draw_on_cpu(func, known, args, kwargs, _DTYPE_OF_PRECISION[precision])
        if known.base != "view":  # which may look at the same bits as another dtype
            args, kwargs = _with_float64(known, args, kwargs)
        torch.set_default_dtype(torch.float64)
        try:
            if self._perturbation is not None and known.base in _DECOMPOSED:
                out = self._decomposed(func, args, kwargs)
                if out is not NotImplemented:
                    return out
            out = func(*args, **kwargs)
        finally:
            torch.set_default_dtype(torch.float32)
        if known.view:
            return out
        if self._perturbation is not None and (
            not known.moves or (precision < SINGLE and known.base in ("_to_copy", "copy_"))
        ):
            summed = sizes(known.base, args, out)
            if summed is None:
                for tensor in _fresh(known, out, args, kwargs):
                    self._perturbation.apply(tensor, precision)
            else:
                for tensor, size in zip(flatten(out), summed, strict=False):
                    if isinstance(tensor, torch.Tensor):
                        self._perturbation.apply(
                            tensor, precision, SHARE * 2.0 ** -max(precision, SINGLE) * size
                        )
        return out

    def _decomposed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The operator written in smaller ones, each of which is perturbed: all elements share an
        error in a mean."""
        decomposition = decompositions().get(func)
        if decomposition is None:
            return NotImplemented
        with self:
            return decomposition(*args, **kwargs)


@functools.cache
def decompositions() -> Mapping[Any, Any]:
    """torch's own ways to write an operator in smaller ones, also of operators that count as
    elementary."""
    from torch._decomp import decomposition_table

    return decomposition_table


# Their own steps are sums, whose errors all of their results share.
_DECOMPOSED = frozenset(
    {
        "native_batch_norm", "_native_batch_norm_legit", "native_batch_norm_backward",
        "native_layer_norm",
        "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward", "_softmax",
        "_log_softmax",
        "_softmax_backward_data", "_log_softmax_backward_data",
    }
)  # fmt: skip


def _with_float64(
    known: OpFacts, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, Any]:
    kept = {id(t) for t in flatten(written(known, args, kwargs))}

    def to_float64(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            target = WIDER.get(value.dtype)
            return value if target is None or id(value) in kept else value.to(target)
        if isinstance(value, torch.dtype):
            return WIDER.get(value, value)
        return value

    return map_leaves(to_float64, tuple(args)), map_leaves(to_float64, dict(kwargs))


def draw_on_cpu(
    func: Any,
    known: OpFacts,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dtype: torch.dtype | None,
) -> Any:
    """A random operator, drawn on the CPU, so that every model run that begins with the same seed
    draws the same numbers.

    ``dtype``: that of the tested model, in which they are drawn where the run is in float64; None
    leaves what was asked for.
    """
    tensors = {id(t): t for t in flatten((list(args), dict(kwargs))) if isinstance(t, torch.Tensor)}
    narrow = {torch.float64: dtype or torch.float64}
    given = {key: t.to("cpu", narrow.get(t.dtype, t.dtype)) for key, t in tensors.items()}
    device = next((t.device for t in tensors.values()), torch.device("cpu"))
    device = torch.device(kwargs["device"]) if kwargs.get("device") is not None else device
    plain = {
        name: torch.device("cpu") if name == "device" and value is not None else value
        for name, value in kwargs.items()
    }

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        return given[id(tensor)]

    out = func(*map_tensors(copied, tuple(args)), **map_tensors(copied, plain))
    back = {}
    for target in flatten(written(known, args, kwargs)):
        if isinstance(target, torch.Tensor):
            back[id(given[id(target)])] = target
            if given[id(target)] is not target:
                target.copy_(given[id(target)])

    def returned(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in back:
            return back[id(tensor)]
        return tensor.to(
            device, WIDER.get(tensor.dtype, tensor.dtype) if dtype is not None else tensor.dtype
        )

    return map_tensors(returned, out)


def _floats(value: Any) -> bool:
    """A floating tensor whose numbers lie in memory; those of a sparse one are moved where they are
    made."""
    return (
        isinstance(value, torch.Tensor)
        and (value.is_floating_point() or value.is_complex())
        and value.layout == torch.strided
    )


def _fresh(
    known: OpFacts, out: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[torch.Tensor]:
    """The floating tensors whose numbers the call made: returned ones and written ones, each
    once."""
    if isinstance(out, torch.Tensor) and not known.writes:
        return [out] if _floats(out) else []
    found = [*flatten(written(known, args, kwargs)), *flatten(out)]
    return list({id(t): t for t in found if _floats(t)}.values())
