"""torch's ONNX exporter, without what it computes anew for every model.

``torch.onnx.export`` builds its table of 1,600 translations and its table of decompositions for
each model, and traces a model again to decompose it: 0.5 s of processor time for a graph of one
node. The tables are kept here, and a model all of whose operators have a translation is not traced
again: 15 to 60 ms. What is translated, and how, stays the exporter's: graphs are the same with and
without :func:`prepare` (a test compares them).

The other way is to call the functions of onnxscript's torch library by hand, one per aten operator.
Of the 13 ms of a softmax, torch.export takes 9.5 and that library 3, so it could save 10 ms of what
is paid once per signature. But people do not export that way: decompositions, type promotion and
the choice of an overload are where an export goes wrong, and they would be ours.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

_EXPORTER = "torch.onnx._internal.exporter"
_WARNINGS = ("torch.onnx", "onnxscript", "onnx_ir", "torch.export")


@functools.cache
def prepare() -> None:
    """Keep the exporter's tables for the life of this process, once.

    A version of torch that has them elsewhere is left alone, and is slower.
    """
    for name in _WARNINGS:  # torchvision's absence, once per model
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        registration: Any = importlib.import_module(f"{_EXPORTER}._registration")
        tables: Any = importlib.import_module(f"{_EXPORTER}._decomp")
        passes: Any = importlib.import_module(f"{_EXPORTER}._fx_passes")
        registry, table = registration.ONNXRegistry, tables.create_onnx_friendly_decomposition_table
        decompose = passes.decompose_with_registry
        full = functools.cache(registry.from_torchlib)
    except (ImportError, AttributeError):
        return
    entries: list[dict[Any, Any]] = []

    def kept_table(registered: set[Any]) -> dict[Any, Any]:
        if not entries:
            entries.append(table(registered))
        return dict(entries[0])

    def decomposed(program: Any, registry: Any) -> Any:
        return program if _is_translatable(program, registry) else decompose(program, registry)

    registry.from_torchlib = classmethod(lambda _, **options: full(**options))
    tables.create_onnx_friendly_decomposition_table = kept_table
    passes.decompose_with_registry = decomposed
    _keep_overrides()


def _keep_overrides() -> None:
    """Install the kernels that decompose (or preserve) composite operators from a copy, instead of
    making thousands of closures for each graph."""
    programs: Any = importlib.import_module("torch.export.exported_program")
    fakes: Any = importlib.import_module("torch._subclasses.fake_impls")
    try:
        override, collect = (
            programs._override_composite_implicit_decomp,
            programs._collect_all_valid_cia_ops,
        )
        rules, deregister = fakes.op_implementations_dict, fakes._deregister_op_impl
    except AttributeError:
        return
    composite = functools.cache(collect)
    made: dict[frozenset[Any], list[tuple[Any, dict[Any, Any], Any]]] = {}

    @contextlib.contextmanager
    def installed(decompositions: dict[Any, Any]) -> Iterator[None]:
        key = frozenset(decompositions)
        if key not in made:
            with override(decompositions):
                made[key] = [(op, dict(op.py_kernels), rules.get(op)) for op in decompositions]
                yield
            return
        before = [(op, op.py_kernels.copy()) for op in decompositions]
        for op, kernels, rule in made[key]:
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()
            if rule is not None:
                rules[op] = rule
        try:
            yield
        finally:
            for op, kernels in before:
                op.py_kernels.clear()
                op.py_kernels.update(kernels)
                op._dispatch_cache.clear()
                deregister(op)

    programs._override_composite_implicit_decomp = installed
    programs._collect_all_valid_cia_ops = composite


def _is_translatable(program: Any, registry: Any) -> bool:
    """Whether every node is a pure operator that has a translation of its own and would be kept
    for it. torch decomposes composite operators that may alias or write their arguments whatever
    the table says (``broadcast_to``, ``batch_norm``)."""
    is_kept: Any = importlib.import_module("torch._export.utils")._check_valid_to_preserve
    for module in program.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            return False
        for node in module.graph.nodes:
            if node.op != "call_function" or node.target is operator.getitem:
                continue
            if (
                not isinstance(node.target, torch._ops.OpOverload)
                or node.target._schema.is_mutable
                or (_is_composite(node.target) and not is_kept(node.target))
                or not registry.is_registered(node.target)
            ):
                return False
    return True


def _is_composite(target: Any) -> bool:
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return key in target.py_kernels or torch._C._dispatch_has_kernel_for_dispatch_key(
        target.name(), "CompositeImplicitAutograd"
    )


def export(
    function: Callable[..., Any], tensors: Sequence[torch.Tensor], opset: int | None = None
) -> bytes:
    """``function(*tensors)``, which returns a tuple of tensors, as a serialized ONNX model with the
    shapes of these tensors.

    Raises whatever torch.export and the exporter raise.
    """
    prepare()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with torch.no_grad():
            program = torch.export.export(_Module(function).eval(), tuple(tensors), strict=False)
            options: dict[str, Any] = {} if opset is None else {"opset_version": opset}
            model: Any = torch.onnx.export(program, verbose=False, **options)
    data: bytes = model.model_proto.SerializeToString()
    return data


class _Module(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self._function(*tensors)
