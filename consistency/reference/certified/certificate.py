"""Certificates: proved values of single elements of an operator's result for a case's inputs."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ... import operators
from ...backends._cotangents import differentiated
from ...backends._outputs import collect, limited
from ...core.dtypes import PARTS, floats
from ...core.model import Output
from ...core.trees import map_leaves
from ...core.views import further_view
from ...generate.materialize import Arguments, Materials
from ...operators.common_form import common_form
from ...operators.declare import Operator
from ..computed_format import computed_dtype
from ..written_integers import are_computed_otherwise, wrap_before
from . import balls, factorizations
from .balls import Element, Unknowable, Unsure
from .complex_numbers import Pair, Tensor
from .definitions import DEFINITIONS
from .elementwise import node_of
from .entries import load
from .factor_signs import TRAIT, free_signs
from .gradients import gradients
from .movement import reshape, view
from .nodes import Constant, Deadline, Node, evaluate, evaluate_all
from .poles import limits
from .rounding import nearest_double
from .tracing import CallTrace

BITS = (128, 256, 512, 1024, 2048)
DIGITS = 40


@dataclass(frozen=True)
class Certificate:
    """The proved value of one element.

    ``high`` is the exact value rounded to float64 (or an integer or boolean), ``tail`` the exact
    value minus ``high``; of complex elements both are complex. ``digits`` is the value as text,
    with at most 40 digits, all of them proved; ``bits`` is the precision of the balls.
    """

    position: int
    high: Any
    tail: Any
    digits: str
    bits: int

    @property
    def signed(self) -> bool:
        """Whether the sign of a zero is known: not for a difference of equal numbers, and not for
        complex elements."""
        return self.digits != "0" and type(self.high) is not complex

    def without_sign(self) -> Certificate:
        """The same zero, whose sign is not known."""
        return replace(self, high=0.0, digits="0")


class Certifier:
    """Proves elements of one case in one direction. ``reason`` says why :meth:`prove` could not
    prove an element; ``missing`` are the ATen operators without an entry."""

    def __init__(
        self,
        operator: Operator,
        materials: Materials,
        direction: str,
        *,
        integers_too: bool = False,
    ) -> None:
        load()
        self.operator, self.materials, self.direction = operator, materials, direction
        self.integers_too = integers_too
        self.reason = ""
        self.missing: set[str] = set()
        self._outputs: list[Tensor] | None = None
        self._limits: npt.NDArray[np.float64] | None = None  # infinite gradients (:mod:`.poles`)
        # The work limit under which the call could not be traced, and why not.
        self._refused: tuple[float, str] | None = None

    def outputs(self) -> list[Tensor]:
        """The nodes of the compared quantities. Raises Unsure, and what the operator raises."""
        if self._outputs is None:
            work = Deadline.left
            if self._refused is not None and work <= self._refused[0]:
                raise Unknowable(self._refused[1])
            try:
                with balls.precision(BITS[0]):
                    self._outputs = self._trace_outputs()
            except Unknowable as reason:
                self._refused = work, str(reason)
                raise
        return self._outputs

    def _trace_outputs(self) -> list[Tensor]:
        if "random" in self.operator.traits:
            raise Unknowable("its numbers are drawn at random")
        if self._is_converted_first():
            raise Unknowable("whether operands take the destination's dtype before the call")
        if are_computed_otherwise(self.operator, self.materials):
            raise Unknowable("integers that may wrap before they are written as fractions")
        if wrap_before(self.operator, self.materials):
            raise Unknowable("integers that wrap before they are written as longer ones")
        with free_signs(TRAIT in self.operator.traits):
            return self._backward() if self.direction == "backward" else self._forward()

    def _is_converted_first(self) -> bool:
        """Whether a destination is of another kind of numbers than what is written to it: torch's
        reductions convert their operands to its dtype (``sum(x, out=integers)``)."""
        operator, dtypes_ = self.operator, [t.dtype for t in self.materials.case.tensors]
        if operator.form_of is None or not operator.leading or len(dtypes_) < 2:
            return False
        (destination, *others) = dtypes_
        fractions = any(map(floats, others))
        if destination not in PARTS and any(other in PARTS for other in others):
            return operator.ruled_by[1] != "unary"
        if operator.ruled_by[1] == "creation":
            return floats(destination) != fractions
        return fractions and not floats(destination)

    def prove(
        self, output: int, positions: Sequence[int], seconds: float = 1.0, work: float = math.inf
    ) -> list[Certificate | None]:
        """Certificates of the elements of output number ``output`` at flat ``positions``; None
        where nothing could be proved within ``seconds`` of processor time
        and ``work`` elements of all nodes."""
        before = Deadline.until, Deadline.left
        Deadline.until, Deadline.left = time.thread_time() + seconds, work
        certificates: dict[int, Certificate | None] = dict.fromkeys(positions)
        try:
            for bits in BITS:
                remaining = [p for p in certificates if certificates[p] is None]
                if not remaining:
                    break
                with balls.precision(bits):
                    certificates |= self._prove_elements(output, remaining, bits)
        except Unknowable as reason:
            self.reason = str(reason)
        except Exception as error:
            # An entry met a case that it was not written for: nothing is proved.
            self.reason = f"{type(error).__name__}: {error}"
        finally:
            Deadline.until, Deadline.left = before
        return [certificates[p] for p in positions]

    def _prove_elements(
        self, output: int, positions: list[int], bits: int
    ) -> dict[int, Certificate | None]:
        node = self.outputs()[output]
        places = np.asarray(positions, dtype=np.int64)
        try:
            if isinstance(node, Pair):
                parts = zip(
                    *(part.tolist() for part in evaluate_all((node.re, node.im), places)),
                    strict=True,
                )
                numbers = list(parts)
                if self.direction == "backward":
                    numbers = [(_finite(re), _finite(im)) for re, im in numbers]
                return {
                    p: _complex_certificate(p, re, im, bits)
                    for p, (re, im) in zip(positions, numbers, strict=True)
                }
            values = evaluate(node, places).tolist()
            if self.direction == "backward":
                values = [
                    self._as_limit(output, p, v) for p, v in zip(positions, values, strict=True)
                ]
            return {
                p: _certificate(p, value, bits) for p, value in zip(positions, values, strict=True)
            }
        except Unknowable:
            raise
        except Unsure as reason:
            self.reason = str(reason)
            if len(positions) == 1:
                return {}
        certificates: dict[int, Certificate | None] = {}
        for p in positions:  # singly, because one unsure element fails the whole batch
            certificates |= self._prove_elements(output, [p], bits)
        return certificates

    def _as_limit(self, output: int, position: int, value: Element) -> Element:
        """The value of an element of a gradient, infinite only where it is so however it is
        computed. Raises Unsure."""
        if output == 0 and self._limits is not None and not math.isnan(self._limits[position]):
            return float(self._limits[position])
        return _finite(value)

    def _run_operator(self, arguments: Arguments) -> tuple[Output, ...]:
        function = self._function()
        return collect(
            lambda args, kwargs: function(*args, **kwargs), self.operator, arguments, False
        )

    def _function(self) -> Callable[..., Any]:
        """The function to trace: a definition for operators that compute with Python numbers, whose
        rounding cannot be traced."""
        if self.operator.reference_dtype is None:
            return self.operator  # the entry of the operator is exact; its reference counts in bits
        definition = DEFINITIONS.get(self.operator.name) if self._declared else None
        return definition or self.operator.reference or self.operator

    @functools.cached_property
    def _declared(self) -> bool:
        """Whether the operator is the registered one, not a user's with the same name."""
        registered = operators.registry().get(self.operator.name)
        return registered is not None and registered.callable is self.operator.callable

    def _build(self, gradients: bool = False) -> Arguments:
        leaves = gradients and self.operator.leaves
        wide = computed_dtype(self.operator, self.materials)
        return self.materials.build(wide, gradients=leaves, integers_too=self.integers_too)

    def _forward(self) -> list[Tensor]:
        ours = self._declared or self.operator.name.startswith("aten.")
        factors = (
            factorizations.known(self.operator, self._build, self._run_operator) if ours else None
        )
        if factors is not None:
            return factors
        arguments = self._build()
        trace = CallTrace()
        with torch.no_grad(), trace:
            outputs = self._run_operator(arguments)
            tensors = [o.tensor for o in outputs]
            if self.operator.observe is not None and outputs:
                fresh = self._build()
                tensors = list(
                    self.operator.observe(
                        *common_form(self.operator, fresh.args, fresh.kwargs), tuple(tensors)
                    )
                )
        self.missing = trace.missing
        return [trace.node(t) if t is not None else Constant(np.zeros(())) for t in tensors]

    def _backward(self) -> list[Tensor]:
        arguments = self._build(gradients=True)
        trace = CallTrace(gradients=True)
        leaves = [arguments.tensors[i] for i in arguments.leaves]
        names_places = self.operator.name.startswith("as_strided")
        if names_places and any(t.storage_offset() or not t.is_contiguous() for t in leaves):
            raise Unknowable("places in memory are others in the contiguous copies used here")
        copies = {
            id(t): t.detach().clone(memory_format=torch.contiguous_format).requires_grad_(True)
            for t in leaves
        }
        nodes = [trace.leaf(copies[id(t)]) for t in leaves]
        function = self._function()
        with torch.enable_grad(), trace:
            for position, (owner, steps) in arguments.shared.items():
                if arguments.tensors[position].requires_grad:
                    copy = further_view(copies[id(arguments.tensors[owner])], steps)
                    copies[id(arguments.tensors[position])] = copy
            swapped = map_leaves(
                lambda x: copies.get(id(x), x), (tuple(arguments.args), arguments.kwargs)
            )
            args, kwargs = _copy_written(swapped, self.operator, arguments, copies)
            result = list(limited(function(*args, **kwargs)))
        roots = []
        with torch.no_grad():
            pairs = differentiated(result, arguments)
            if len(pairs) == len(leaves) == 1 and self._declared:
                self._limits = limits(self.operator, leaves[0], pairs[0][1])
            for root, cotangent in pairs:
                roots += _real_pairs(trace.node(root), trace.node(cotangent.detach().clone()))
        self.missing = trace.missing
        flat = gradients(roots, [_flat_leaf(node) for node in nodes])
        if trace.blocked and any(g is None for g in flat):
            raise Unknowable("a part is computed under torch.no_grad()")
        by_leaf = [
            _reshape_gradient(g, tuple(t.shape), t.is_complex())
            for g, t in zip(flat, leaves, strict=True)
        ]
        if self.operator.observe_gradients is None:
            return by_leaf
        tensors = []
        for node, leaf in zip(by_leaf, leaves, strict=True):
            tensor = torch.zeros_like(leaf, memory_format=torch.contiguous_format).detach()
            trace.write(tensor, node)
            tensors.append(tensor)
        fresh = self._build()
        with torch.no_grad(), trace:
            observed = self.operator.observe_gradients(
                *common_form(self.operator, fresh.args, fresh.kwargs), tuple(tensors)
            )
        return [trace.node(t) if t is not None else Constant(np.zeros(())) for t in observed]


def _copy_written(
    call: Any, operator: Operator, arguments: Arguments, copies: dict[int, torch.Tensor]
) -> Any:
    """The arguments, by position and by name, with written tensors copied inside the trace: a leaf
    cannot be written to."""
    if not operator.mutates:
        return call
    changed = [arguments.tensors[i] for i in operator.mutates if i < len(arguments.tensors)]
    written = {id(copies.get(id(t), t)) for t in changed}
    return map_leaves(lambda a: a.clone() if id(a) in written else a, call)


def _real_pairs(root: Tensor, cotangent: Tensor) -> list[tuple[Node, Node]]:
    if isinstance(root, Pair):
        zero = node_of(0.0)
        parts = (cotangent.re, cotangent.im) if isinstance(cotangent, Pair) else (cotangent, zero)
        return [(root.re, parts[0]), (root.im, parts[1])]
    return [(root, cotangent.re if isinstance(cotangent, Pair) else cotangent)]


def _flat_leaf(node: Tensor) -> Node:
    """The node of the storage of a leaf tensor."""
    result = node.re if isinstance(node, Pair) else node
    while result.inputs:
        result = result.inputs[0]
    return result


def _reshape_gradient(flat: Node | None, shape: tuple[int, ...], is_complex: bool) -> Tensor:
    count = int(np.prod(shape, dtype=np.int64))
    if flat is None:
        zero = Constant(np.zeros(shape))
        return Pair(zero, zero) if is_complex else zero
    if not is_complex:
        return reshape(flat, shape)
    re, im = (reshape(view(flat, (count,), (2,), part), shape) for part in (0, 1))
    return Pair(re, im)


def _certificate(position: int, value: Element, bits: int) -> Certificate | None:
    if isinstance(value, (bool, int)):
        return Certificate(position, value, 0, str(value), bits)
    high_and_tail = nearest_double(value)
    return (
        None
        if high_and_tail is None
        else Certificate(position, *high_and_tail, _digits(value), bits)
    )


def _finite(value: Element) -> Element:
    """An element of a gradient. Raises Unsure for NaN and infinities."""
    if type(value) is float and value - value != 0.0:
        raise Unsure(
            "a gradient that is not finite, which depends on the order of what is multiplied and "
            "summed"
        )
    return value


def _complex_certificate(position: int, re: Element, im: Element, bits: int) -> Certificate | None:
    a, b = nearest_double(re), nearest_double(im)
    if a is None or b is None:
        return None
    digits = f"{_digits(re)} + {_digits(im)}i"
    return Certificate(position, complex(a[0], b[0]), complex(a[1], b[1]), digits, bits)


def _digits(value: Element) -> str:
    return repr(value) if type(value) is float else str(value.str(DIGITS, radius=False))
