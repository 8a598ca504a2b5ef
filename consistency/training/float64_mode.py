"""Dispatch mode that runs a model in float64, whatever dtype it asks for; in a replica every number
is perturbed by half an ulp.

The model's code is unchanged; below autograd each operator gets float64 only. If the tested model
uses other formats (autocast, ``.half()``), a first pass records them by module and operator, and
replicas are perturbed by half an ulp of that format.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..core import dtypes
from ..core.dtypes import float64_by_default
from ..core.moving import moved
from ..core.trees import flatten, map_leaves, map_tensors
from ..operators.catalog.signature import draws_numbers
from ..reference.perturbation import ReplicaPerturbation
from .op_facts import WIDER, OpFacts, facts_of, written
from .sum_magnitudes import SHARE, sizes
from .trace.modules import Modules

SINGLE = 24
_DTYPE_OF_PRECISION = {24: torch.float32, 11: torch.float16, 8: torch.bfloat16, 53: torch.float64}


class WorkingFormats:
    """The smallest number of significand bits that operators return in the tested model, by
    (module, operator) and by module."""

    def __init__(self) -> None:
        self._precisions: dict[tuple[str, str], int] = {}
        self.uniform = True  # everything is float32

    def record(self, module: str, base: str, tensor: torch.Tensor) -> None:
        form = dtypes.form_of(dtypes.name_of(tensor.dtype))
        if form is not None:
            self.uniform = self.uniform and form.precision == SINGLE
            for key in ((module, base), (module, "")):
                self._precisions[key] = min(self._precisions.get(key, 64), form.precision)

    def of(self, module: str, base: str) -> int:
        return self._precisions.get((module, base)) or self._precisions.get((module, ""), SINGLE)


class FormatRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the formats of the tested model."""

    def __init__(self, formats: WorkingFormats, modules: Modules) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._formats, self._modules, self.paused = formats, modules, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not self.paused and getattr(func, "namespace", "") == "aten":
            facts = facts_of(func)
            if not facts.view:
                name = self._modules.name()
                for tensor in _computed_tensors(facts, out, args, kwargs or {}):
                    self._formats.record(name, facts.base, tensor)
        return out


class Float64Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs everything in float64. With ``perturbation`` the result of each rounding operator is
    perturbed by half an ulp."""

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
        facts = facts_of(func)
        # The name is asked for even where nobody needs it: it is learned going forward what a
        # gradient goes back through.
        precision = (
            SINGLE if self._formats.uniform else self._formats.of(self._modules.name(), facts.base)
        )
        if facts.random and draws_numbers(func, args, kwargs):
            return draw_on_cpu(func, facts, args, kwargs, _DTYPE_OF_PRECISION[precision])
        if facts.base != "view":  # which may reinterpret the bits
            args, kwargs = _with_float64(facts, args, kwargs)
        with float64_by_default():
            if self._perturbation is not None and facts.base in _DECOMPOSED:
                out = self._run_decomposed(func, args, kwargs)
                if out is not NotImplemented:
                    return out
            out = func(*args, **kwargs)
        if facts.view:
            return out
        if self._perturbation is not None and (
            not facts.moves or (precision < SINGLE and facts.base in ("_to_copy", "copy_"))
        ):
            term_sums = sizes(facts.base, args, out)
            if term_sums is None:
                for tensor in _computed_tensors(facts, out, args, kwargs):
                    self._perturbation.apply(tensor, precision)
            else:
                for tensor, size in zip(flatten(out), term_sums, strict=False):
                    if isinstance(tensor, torch.Tensor):
                        self._perturbation.apply(
                            tensor, precision, SHARE * 2.0 ** -max(precision, SINGLE) * size
                        )
        return out

    def _run_decomposed(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run a decomposition whose steps are perturbed: an error in a mean is shared by all
        elements."""
        decomposition = decompositions().get(func)
        if decomposition is None:
            return NotImplemented
        with self:
            return decomposition(*args, **kwargs)


@functools.cache
def decompositions() -> Mapping[Any, Any]:
    """torch's decompositions, including those of elementary operators."""
    from torch._decomp import decomposition_table

    return decomposition_table


# Their steps include sums, whose errors all results share.
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
    mutated = {id(t) for t in flatten(written(known, args, kwargs))}

    def to_float64(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            target = WIDER.get(value.dtype)
            return value if target is None or id(value) in mutated else value.to(target)
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
    """Run a random operator on the CPU, so that equal seeds give equal numbers in every model run.

    ``dtype``: the dtype of the tested model, used for drawing if the run is in float64; None keeps
    the requested one.
    """
    tensors = {id(t): t for t in flatten((list(args), dict(kwargs))) if isinstance(t, torch.Tensor)}
    drawn_dtypes = {torch.float64: dtype or torch.float64}
    cpu_tensors = {key: moved(t, "cpu", drawn_dtypes.get(t.dtype)) for key, t in tensors.items()}
    device = next((t.device for t in tensors.values()), torch.device("cpu"))
    device = torch.device(kwargs["device"]) if kwargs.get("device") is not None else device
    cpu_kwargs = {
        name: torch.device("cpu") if name == "device" and value is not None else value
        for name, value in kwargs.items()
    }

    def to_cpu_tensor(tensor: torch.Tensor) -> torch.Tensor:
        return cpu_tensors[id(tensor)]

    out = func(*map_tensors(to_cpu_tensor, tuple(args)), **map_tensors(to_cpu_tensor, cpu_kwargs))
    mutated = {}
    for target in flatten(written(known, args, kwargs)):
        if isinstance(target, torch.Tensor):
            mutated[id(cpu_tensors[id(target)])] = target
            if cpu_tensors[id(target)] is not target:
                target.copy_(cpu_tensors[id(target)])

    def to_original(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in mutated:
            return mutated[id(tensor)]
        return moved(tensor, device, WIDER.get(tensor.dtype) if dtype is not None else None)

    return map_tensors(to_original, out)


def _is_dense_float(value: Any) -> bool:
    """A dense floating-point tensor; sparse ones are perturbed when their values are computed."""
    return (
        isinstance(value, torch.Tensor)
        and (value.is_floating_point() or value.is_complex())
        and value.layout == torch.strided
    )


def _computed_tensors(
    known: OpFacts, out: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[torch.Tensor]:
    """The floating-point tensors computed by the call, returned or mutated, each once."""
    if isinstance(out, torch.Tensor) and not known.writes:
        return [out] if _is_dense_float(out) else []
    tensors = [*flatten(written(known, args, kwargs)), *flatten(out)]
    return list({id(t): t for t in tensors if _is_dense_float(t)}.values())
