"""Tracing of a call of torch's functions to nodes.

The call runs in torch, and each ATen operator that it dispatches is evaluated in nodes as well;
shapes, strides and storages are read from torch's tensors. Each storage has a node with one element
per number in memory (two per complex number), so that views and writes through them need no
entries. :mod:`.entries` defines operators by name; arguments are passed by their names in torch's
schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from flint import arb
from torch._decomp import decomposition_table

from ...core.dispatch_mode import PlainDispatchMode
from ...operators.catalog.aten import METADATA_QUERIES, is_uninitialized
from ...operators.catalog.signature import Signature, signature
from .balls import Unsure
from .complex_numbers import Pair
from .elementwise import node_of
from .entries import lookup
from .nested_nodes import Written, detached, mapped, nodes_in, unknown
from .nodes import Deadline, Node, Unknown, evaluate
from .python_functions import WholeCalls
from .storage_nodes import StorageNodes, labels_of

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


class CallTrace(StorageNodes, PlainDispatchMode):
    """A dispatch mode that keeps a node for each tensor that calls create. ``missing`` names the
    operators without an entry.

    With ``gradients``, no gradient flows through what is detached or computed under
    ``torch.no_grad()``; ``blocked`` is True if the latter happened.
    """

    def __init__(self, gradients: bool = False) -> None:
        StorageNodes.__init__(self)
        PlainDispatchMode.__init__(self)  # type: ignore[no-untyped-call]
        self.gradients = gradients
        self.missing: set[str] = set()
        self.called: set[str] = set()
        self.blocked = False
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
            return self.mark_uninitialized(func(*args, **kwargs))
        bound = schema.bound(args, kwargs)
        arguments = {
            name: self._as_nodes(value)
            for name, value in bound.items()
            if name not in schema.only_written
        }
        if name.startswith("as_strided"):
            arguments |= self._strided_arguments(bound)
        out = func(*args, **kwargs)
        sources = nodes_in(arguments)
        written = bound.get(next(iter(schema.written), ""))
        # Operators over lists that write in place return nothing.
        results = self._evaluate_entry(schema, arguments, written if out is None else out, sources)
        if self.gradients and not torch.is_grad_enabled():
            self.blocked = True
            results = mapped(detached, results)
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
                "places": labels_of(part),
                "own_places": labels_of(source),
            }

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
            return mapped(lambda x: unknown(x, missing, sources), out)
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
        return mapped(lambda x: unknown(x, why, sources), out)

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
                pairs = [(t, unknown(t, why, sources)) for t in targets]
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
                    else unknown(tensor, surplus, sources)
                )
                self._write(tensor, value)

    def _detach(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy in a storage of its own: the same numbers, but no gradient flows through it."""
        with torch.utils._python_dispatch._disable_current_modes():
            copy = tensor.detach().clone()
        self.write(copy, mapped(detached, self.node(tensor)))
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
