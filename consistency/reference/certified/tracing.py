"""Tracing of a call of torch's functions to nodes.

The call runs in torch, and each ATen operator that it dispatches is evaluated in nodes as well;
shapes, strides and storages are read from torch's tensors. Each storage has a node with one element
per number in memory (two per complex number), so that views and writes through them need no
entries. :mod:`.entries` defines operators by name; arguments are passed by their names in torch's
schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from flint import arb
from torch._decomp import decomposition_table
from torch.utils._python_dispatch import TorchDispatchMode

from ...operators.catalog.aten import METADATA_QUERIES, is_uninitialized
from ...operators.catalog.signature import Signature, signature
from .balls import Unsure
from .complex_numbers import Pair, Tensor, neg, pair
from .elementwise import node_of, or_, to_real, truth
from .entries import lookup
from .movement import Overlay, cat, expand, gather, reshape, unsqueeze, view
from .nodes import Constant, Deadline, Detached, Leaf, Node, Unknown, evaluate
from .python_functions import WholeCalls
from .rounding import rounded_to, to_whole

# Gradients whose decomposition in torch is the exact derivative, without rounded constants.
_DECOMPOSED = frozenset(
    f"{name}_backward"
    for name in (
        "elu", "native_batch_norm", "native_group_norm", "leaky_relu", "hardtanh", "softplus",
        "hardswish", "smooth_l1_loss",
        "huber_loss", "binary_cross_entropy", "nll_loss2d", "glu", "slice", "select", "unfold",
        "log_sigmoid", "mish",
        "soft_margin_loss", "native_dropout",
    )
)  # fmt: skip
A_CALL = 100  # cost of tracing one call, in computed elements


@dataclass
class Written:
    """The result of an entry that also writes to arguments which the schema does not mark: their
    new values by name."""

    outputs: Any
    arguments: Mapping[str, Any] = field(default_factory=dict)


class CallTrace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that keeps a node for each tensor that calls create. ``missing`` names the
    operators without an entry.

    With ``gradients``, no gradient flows through what is detached or computed under
    ``torch.no_grad()``; ``blocked`` is True if the latter happened.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False, because otherwise torch imports its compiler, which takes seconds."""
        return False

    def __init__(self, gradients: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.gradients = gradients
        self.missing: set[str] = set()
        self.called: set[str] = set()
        self.blocked = False
        self._storages: dict[int, Node] = {}
        self._alive: list[torch.Tensor] = []
        self._whole_calls: list[WholeCalls] = []

    def __enter__(self) -> CallTrace:
        # Removed in __exit__, because the two modes refer to each other.
        self._whole_calls.append(WholeCalls(self))
        self._whole_calls[-1].__enter__()  # type: ignore[no-untyped-call]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)  # type: ignore[no-untyped-call]
        self._whole_calls.pop().__exit__(*exception)  # type: ignore[no-untyped-call]

    # --- tensors and their nodes

    def leaf(self, tensor: torch.Tensor) -> Tensor:
        """The node of a tensor with respect to which gradients will be computed; it must be
        contiguous and own its storage."""
        numbers = Leaf(_numbers(tensor))
        self._keep_alive(tensor)
        self._storages[_key(tensor)] = numbers
        return self.node(tensor)

    def node(self, tensor: torch.Tensor) -> Tensor:
        """The node of a tensor's present values; a constant if no traced call wrote them."""
        with torch.utils._python_dispatch._disable_current_modes():
            return self._node(tensor)

    def _node(self, tensor: torch.Tensor) -> Tensor:
        dtype = tensor.dtype
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
            return Unknown(tuple(tensor.shape), "a tensor that is not strided")
        key = _key(tensor)
        storage = self._storages.get(key)
        if storage is None:
            self._keep_alive(tensor)
            storage = self._storages[key] = Constant(_numbers(_whole_storage(tensor)))
        if storage.size != _capacity(tensor) or (storage.kind == "real") != _is_real(dtype):
            return Unknown(tuple(tensor.shape), "bits read as another dtype")
        shape, strides, offset = tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset())
        if not dtype.is_complex:
            real: Tensor = view(storage, shape, strides, offset)
            return neg(real) if tensor.is_neg() else real
        doubled = [2 * s for s in strides]
        re, im = (
            view(storage, shape, doubled, 2 * offset),
            view(storage, shape, doubled, 2 * offset + 1),
        )
        return Pair(re, neg(im)) if tensor.is_conj() else Pair(re, im)

    def _keep_alive(self, tensor: torch.Tensor) -> None:
        self._alive.append(tensor)  # otherwise another storage could reuse its address

    def write(self, tensor: torch.Tensor, made: Any) -> None:
        """Set the node of a tensor to these numbers, rounded to its dtype."""
        with torch.utils._python_dispatch._disable_current_modes():
            self._write(tensor, made)

    def _write(self, tensor: torch.Tensor, value: Any) -> None:
        dtype = tensor.dtype
        value = coerced(value, dtype, tuple(tensor.shape))
        self._keep_alive(tensor)
        key, width = _key(tensor), 2 if dtype.is_complex else 1
        capacity = _capacity(tensor)
        flat: Node
        if isinstance(value, Pair):
            flat = reshape(
                cat(
                    [
                        unsqueeze(value.re, -1),
                        unsqueeze(neg(value.im) if tensor.is_conj() else value.im, -1),
                    ],
                    -1,
                ),
                (-1,),
            )
        else:
            flat = reshape(neg(value) if tensor.is_neg() else value, (value.size,))
        fills_storage = (
            tensor.is_contiguous()
            and not tensor.storage_offset()
            and capacity == width * tensor.numel()
        )
        if fills_storage:
            self._storages[key] = flat
            return
        labels = _labels(tensor)
        if capacity == labels.size and key not in self._storages:
            inverse = np.empty(capacity, dtype=np.int64)
            inverse[labels] = np.arange(capacity)
            self._storages[key] = gather(flat, inverse, (capacity,))
            return
        below = self._storages.get(key)
        if below is None or below.size != capacity:
            below = Constant(_numbers(_whole_storage(tensor)))
        if flat.kind != below.kind:
            flat, below = to_real(flat), to_real(below)
        self._storages[key] = Overlay(below, flat, labels)

    # --- calls

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        schema = signature(func)
        name = schema.name
        self.called.add(name)
        Deadline.spend(A_CALL)
        if schema.is_view or (schema.is_inplace_view and name != "detach_"):
            if name == "detach" and self.gradients:
                return self._detach(args[0])
            return func(*args, **kwargs)
        if name in _DECOMPOSED and lookup(name) is None and func in decomposition_table:
            with self:
                return decomposition_table[func](*args, **kwargs)
        if is_uninitialized(name):
            return self._mark_uninitialized(func(*args, **kwargs))
        bound = schema.bound(args, kwargs)
        arguments = {
            name: self._as_nodes(value)
            for name, value in bound.items()
            if name not in schema.only_written
        }
        if name.startswith("as_strided"):
            arguments |= self._strided_arguments(bound)
        out = func(*args, **kwargs)
        sources = _nodes_in(arguments)
        results = self._evaluate_entry(schema, arguments, out, sources)
        if self.gradients and not torch.is_grad_enabled():
            self.blocked = True
            results = mapped(_detach_nodes, results)
        if isinstance(results, Written):
            for argument, value in results.arguments.items():
                if isinstance(bound.get(argument), torch.Tensor):
                    self._write(bound[argument], value)
            results = results.outputs
        self._assign_results(schema, bound, out, results, sources)
        if isinstance(out, (bool, int, float, complex)) and name not in METADATA_QUERIES:
            self._check_number(name, out, results)
        return out

    def _strided_arguments(self, bound: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments for operators that address memory: the requested view, and the positions in
        the storage of the view's elements and of the elements of ``self``."""
        source = bound["self"]
        with torch.utils._python_dispatch._disable_current_modes():
            part = torch.as_strided(source, bound["size"], bound["stride"], bound["storage_offset"])
            return {
                "part": self._node(part),
                "places": _labels(part),
                "own_places": _labels(source),
            }

    def _mark_uninitialized(self, tensor: torch.Tensor) -> torch.Tensor:
        """Mark the values of uninitialized memory as unknown."""
        with torch.utils._python_dispatch._disable_current_modes():
            if tensor.layout == torch.strided:
                storage = _whole_storage(tensor)
                self._keep_alive(tensor)
                size = storage.numel() * (2 if tensor.dtype.is_complex else 1)
                self._storages[_key(tensor)] = Unknown(
                    (size,), "memory that was never written to", _kind(tensor.dtype)
                )
        return tensor

    def _as_nodes(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._node(value)
        return mapped(self._as_nodes, value) if type(value) in (list, tuple, dict) else value

    def _evaluate_entry(
        self, schema: Signature, arguments: dict[str, Any], out: Any, sources: Sequence[Node]
    ) -> Any:
        entry = lookup(schema.name) if schema.space == "aten" else None
        if entry is None:
            self.missing.add(schema.name)
            missing = f"torch.ops.{schema.space}.{schema.name} has no entry"
            return mapped(lambda x: _unknown(x, missing, sources), out)
        try:
            return entry(arguments, out)
        except Unsure as reason:
            why = str(reason)
        except (
            TypeError,
            ValueError,
            LookupError,
            ArithmeticError,
            AttributeError,
            NotImplementedError,
        ) as error:
            why = f"torch.ops.aten.{schema.name}: {type(error).__name__}: {error}"
        return mapped(lambda x: _unknown(x, why, sources), out)

    def _assign_results(
        self,
        schema: Signature,
        bound: Mapping[str, Any],
        out: Any,
        computed: Any,
        sources: Sequence[Node],
    ) -> None:
        """Assign the computed nodes to the tensors that were written to or returned.

        Unknown results still depend on ``sources``, so that the gradients of these are unknown too.
        """
        targets: list[Any] = []
        if schema.written:
            for name in schema.written:
                target = bound.get(name)
                targets += list(target) if isinstance(target, (list, tuple)) else [target]
            values = list(computed) if isinstance(computed, (list, tuple)) else [computed]
            if len(values) == len(targets):
                pairs = list(zip(targets, values, strict=True))
            else:
                # Nothing is known about any written tensor, even if the entry returned no result.
                why = next(
                    (v.why for v in values if isinstance(v, Unknown)),
                    f"{schema} writes in a way of its own",
                )
                pairs = [(t, _unknown(t, why, sources)) for t in targets]
            for target, value in pairs:
                if isinstance(target, torch.Tensor):
                    self._write(target, value)
            return
        results = list(out) if isinstance(out, (list, tuple)) else [out]
        values = list(computed) if isinstance(computed, (list, tuple)) else [computed]
        for position, tensor in enumerate(results):
            if isinstance(tensor, torch.Tensor):
                surplus = f"{schema} gives more than its entry"
                value = (
                    values[position]
                    if position < len(values)
                    else _unknown(tensor, surplus, sources)
                )
                self._write(tensor, value)

    def _detach(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy in a storage of its own: the same numbers, but no gradient flows through it."""
        with torch.utils._python_dispatch._disable_current_modes():
            copy = tensor.detach().clone()
        self.write(copy, mapped(_detach_nodes, self.node(tensor)))
        return copy

    def _check_number(self, name: str, out: Any, computed: Any) -> None:
        """Raise Unsure unless a Python number read from a tensor equals the exact value: the call
        continues with this number."""
        parts = (
            [(computed.re, out.real), (computed.im, out.imag)]
            if isinstance(computed, Pair)
            else [(node_of(computed), out)]
        )
        for node, number in parts:
            if node.size != 1:
                raise Unsure(f"{name}: a number leaves the tensors in a way of its own")
            value = evaluate(node, np.zeros(1, dtype=np.int64))[0]
            is_equal = (
                value == number
                if not isinstance(value, arb)
                else value.is_exact() and value == arb(number)
            )
            if value is None or not (is_equal or (value != value and number != number)):
                raise Unsure(f"{name}: a number that is not exact leaves the tensors")


def _is_real(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def _kind(dtype: torch.dtype) -> str:
    """The kind of the nodes of tensors with this dtype."""
    return "bool" if dtype == torch.bool else "real" if _is_real(dtype) else "int"


def _capacity(tensor: torch.Tensor) -> int:
    """The number of elements of the node of a tensor's storage."""
    width = 2 if tensor.dtype.is_complex else 1
    return tensor.untyped_storage().nbytes() // max(tensor.element_size() // width, 1)


def _detach_nodes(x: Any) -> Any:
    if isinstance(x, Pair):
        return Pair(Detached(x.re), Detached(x.im))
    return Detached(x) if isinstance(x, Node) else x


def _nodes_in(arguments: Any) -> list[Node]:
    """All nodes among the arguments of a call."""
    if isinstance(arguments, Node):
        return [arguments]
    if isinstance(arguments, Pair):
        return [arguments.re, arguments.im]
    if type(arguments) not in (list, tuple, dict):
        return []
    return [
        node
        for x in (arguments.values() if type(arguments) is dict else arguments)
        for node in _nodes_in(x)
    ]


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """``function`` of a value, or of each leaf of nested lists, tuples and dictionaries."""
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return [mapped(function, x) for x in value]
    if type(value) is dict:
        return {name: mapped(function, x) for name, x in value.items()}
    return function(value)


def unknown(x: Any, why: str, arguments: Any) -> Any:
    """The unknown node for a result tensor that an entry does not define; it depends on these
    arguments."""
    return _unknown(x, why, _nodes_in(arguments))


def _unknown(x: Any, why: str, inputs: Sequence[Node] = ()) -> Any:
    if not isinstance(x, torch.Tensor):
        return Unknown((), why, inputs=inputs)
    shape = tuple(x.shape)
    if x.dtype.is_complex:
        return Pair(Unknown(shape, why, inputs=inputs), Unknown(shape, why, inputs=inputs))
    return Unknown(shape, why, _kind(x.dtype), inputs)


def coerced(made: Any, dtype: torch.dtype, shape: Sequence[int]) -> Any:
    """A node rounded to ``dtype`` and broadcast to ``shape``. Raises Unsure where the shapes do not
    fit."""
    if dtype.is_complex:
        complex_node = pair(made)
        if complex_node.shape != tuple(shape):
            complex_node = Pair(expand(complex_node.re, shape), expand(complex_node.im, shape))
        return Pair(
            rounded_to(complex_node.re, dtype.to_real()),
            rounded_to(complex_node.im, dtype.to_real()),
        )
    if isinstance(made, Pair):
        made = or_(truth(made.re), truth(made.im)) if dtype == torch.bool else made.re
    node = node_of(made)
    if node.shape != tuple(shape):
        node = (
            reshape(node, shape)
            if node.size == int(np.prod(shape)) and node.ndim != len(shape)
            else expand(node, shape)
        )
    if dtype.is_floating_point:
        return rounded_to(to_real(node), dtype)
    return to_whole(node, dtype)


def _key(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _whole_storage(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach()
    if flat.is_conj() or flat.is_neg():
        flat = torch._neg_view(flat) if flat.is_neg() else flat.conj()
    size = tensor.untyped_storage().nbytes() // max(tensor.element_size(), 1)
    return flat.as_strided((size,), (1,), 0)


def _numbers(tensor: torch.Tensor) -> Any:
    """The numbers of a contiguous tensor as a flat array: floats as float64, complex numbers as
    two, others as they are."""
    flat = tensor.detach().reshape(-1)
    if flat.dtype.is_complex:
        flat = torch.view_as_real(flat).reshape(-1)
    if flat.dtype.is_floating_point:
        flat = flat.to(torch.float64)
    return flat.numpy().copy()


def _labels(tensor: torch.Tensor) -> Any:
    """The position of each element in the storage, in row-major order; complex elements take two
    positions."""
    offsets = np.zeros(tuple(tensor.shape), dtype=np.int64) + int(tensor.storage_offset())
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        offsets += (np.arange(size) * stride).reshape(
            [-1 if d == dim else 1 for d in range(tensor.ndim)]
        )
    flat = offsets.reshape(-1)
    return (2 * flat[:, None] + np.arange(2)).reshape(-1) if tensor.dtype.is_complex else flat
