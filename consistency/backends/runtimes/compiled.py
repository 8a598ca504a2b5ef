"""Calls through torch.compile (Inductor): one graph per signature, kept while the process lives.

The signature holds whatever the graph is specialized for: the operator, of each tensor the dtype,
sizes, strides and whether it needs a gradient, which arguments share memory, other arguments by
value, and the global switches; not where in memory a tensor lies, because kernels of the CPU load
unaligned. Inductor keeps its kernels on disk, too, so that another process compiles the same graph
in a sixth of the time.

With dynamic shapes a size is a symbol of the graph, except for 0 and 1, which torch.compile
specializes on: tensors whose sizes differ otherwise, and whose memory is laid out alike, share one
graph.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ...core.trees import flatten, map_leaves
from ...errors import Unsupported
from ...operators.declare import Operator
from .._messages import first_line

MAX_GRAPHS = 512  # then all are forgotten: dynamo forgets everything or nothing
# Graphs of one signature with dynamic shapes, whose guards (two sizes are equal, one is a multiple
# of 16) may need another graph; dynamo gives up after eight.
_MAX_RECOMPILED = 64


class CompiledCalls:
    """The graphs of one process; ``dynamic``: their sizes are symbols."""

    def __init__(self, *, dynamic: bool = False) -> None:
        _do_not_time_guards()
        self._dynamic = dynamic
        self._graphs: dict[str, Any] = {}
        self._functions: dict[int, Any] = {}  # keeps their ids from being used again

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the compiled call returns. Raises Unsupported where torch.compile takes no graph of
        it, what the operator raises on fake tensors, and RuntimeError if it does not compile."""
        dynamo: Any = importlib.import_module("torch._dynamo")
        # Outside of the graph, because the look-up takes a lock.
        plain = operator.callable or operator
        key = self._signature(operator.name, plain, args, kwargs)
        if key not in self._graphs:
            if len(self._graphs) >= MAX_GRAPHS:
                self.forget()
            self._graphs[key] = _compiled(plain, len(self._graphs), dynamic=self._dynamic)
        graph = self._graphs[key]
        if isinstance(graph, Unsupported):
            raise graph
        try:
            with dynamo.config.patch(self._limits(dynamo.config)):
                return graph(list(args), dict(kwargs))
        except Exception as error:
            raised = _raised(dynamo, error)
            # That there is no graph holds for the signature; anything else may depend on numbers.
            if isinstance(raised, Unsupported):
                self._graphs[key] = raised.with_traceback(None)
            else:
                del self._graphs[key]
            raise raised from None

    def forget(self) -> None:
        """Forget every graph."""
        importlib.import_module("torch._dynamo").reset()
        self._graphs.clear()
        self._functions.clear()

    def _limits(self, config: Any) -> dict[str, int]:
        if not self._dynamic:  # one graph per signature
            return {}
        name = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"
        return {name: _MAX_RECOMPILED}  # the second name is torch 2.4's

    def _signature(
        self, name: str, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> str:
        self._functions[id(function)] = function
        tensors = [leaf for leaf in flatten((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        describe = _described_without_sizes if self._dynamic else _described
        described = map_leaves(describe, [list(args), dict(kwargs)])
        return f"{name} {id(function)} {described} {_sharing(tensors)} {_switches()}"


def _do_not_time_guards() -> None:
    """Dynamo flushes the processor's caches after each compilation, only to write to its log how
    long the guards take: a quarter of the time of a graph whose kernels are on disk."""
    guards: Any = importlib.import_module("torch._dynamo.guards")
    if hasattr(guards, "profile_guard_manager"):
        guards.profile_guard_manager = lambda *_: 0.0


def _compiled(plain: Any, number: int, *, dynamic: bool = False) -> Any:
    """A function of its own code: dynamo counts graphs by code, and gives up after eight."""

    def called(args: list[Any], kwargs: dict[str, Any]) -> Any:
        return plain(*args, **kwargs)

    called.__code__ = called.__code__.replace(co_name=f"called_{number}")
    compiled: Any = torch.compile(called, fullgraph=True, dynamic=dynamic)
    return compiled


def _described(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return f"{type(leaf).__name__}:{leaf!r}"
    flags = [leaf.is_conj(), leaf.is_neg(), leaf.requires_grad]
    flags += [leaf.is_leaf, leaf._is_view()] if leaf.requires_grad else []
    if leaf.layout != torch.strided:
        return f"{leaf.dtype}{list(leaf.shape)}{leaf.layout}{flags}"
    return f"{leaf.dtype}{list(leaf.shape)}{leaf.stride()}{leaf.storage_offset()}{flags}"


def _described_without_sizes(leaf: Any) -> Any:
    """The sizes 0 and 1 are kept, and by which stride memory is walked through: others are guarded
    by dynamo."""
    if not isinstance(leaf, torch.Tensor) or leaf.layout != torch.strided:
        return _described(leaf)
    flags = [leaf.is_conj(), leaf.is_neg(), leaf.requires_grad]
    flags += [leaf.is_leaf, leaf._is_view()] if leaf.requires_grad else []
    sizes = [min(size, 2) for size in leaf.shape]
    strides = leaf.stride()
    order = sorted(range(leaf.dim()), key=strides.__getitem__)
    steps = [min(step, 2) for step in strides]
    return f"{leaf.dtype}{sizes}{order}{steps}{leaf.is_contiguous()}{flags}"


def _sharing(tensors: Sequence[torch.Tensor]) -> list[int]:
    """Of each tensor the first that shares its memory."""
    places = [
        t.untyped_storage().data_ptr() if t.layout == torch.strided else id(t) for t in tensors
    ]
    return [places.index(place) for place in places]


def _switches() -> tuple[Any, ...]:
    mkldnn: Any = torch.backends.mkldnn
    return (
        torch.is_grad_enabled(), torch.get_num_threads(), torch.get_default_dtype(),
        torch.get_float32_matmul_precision(), mkldnn.enabled,
        torch.are_deterministic_algorithms_enabled(),
    )  # fmt: skip


def _raised(dynamo: Any, error: Exception) -> Exception:
    if isinstance(error, (dynamo.exc.Unsupported, dynamo.exc.UserError)):
        return Unsupported(f"torch.compile takes no graph of it: {first_line(str(error))}")
    if isinstance(error, dynamo.exc.TorchRuntimeError):  # the operator itself, on fake tensors
        return RuntimeError(first_line(str(error.__cause__ or error)))
    if isinstance(getattr(error, "inner_exception", None), NotImplementedError):
        # No gradient of it exists, as in eager mode, and not: it could not be compiled.
        return NotImplementedError(first_line(str(getattr(error, "inner_exception", error))))
    if isinstance(error, dynamo.exc.TorchDynamoException):
        return RuntimeError(f"does not compile: {first_line(_beyond_its_backend(str(error)))}")
    return error


def _beyond_its_backend(text: str) -> str:
    """What a compiler's failure says, without the line of dynamo that names the compiler."""
    _, raised, cause = text.partition(" raised:\n")
    return cause if raised else text
