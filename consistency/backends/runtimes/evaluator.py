"""The translated graph without the runtime, as a backend: onnx's reference evaluator.

What is off here is off in the graph, so the translation is to blame; what is right here and wrong
in the runtime, the runtime is. :mod:`consistency.diagnose.graph_origin` says what its answer
proves.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ...operators.declare import Operator
from ..base import Backend
from . import GRAPH_FAULT, ONE_NODE
from .graph_evaluation import evaluate, steps
from .graph_faults import fault_in, in_torch
from .translation import Translator, tensors_of


class GraphEvaluator(Backend):
    """Evaluates the graphs of ``translator`` in NumPy; with ``in_float64``, floating numbers are
    float64 inside and rounded at the end.

    In float64 it also looks for the part of a graph that is wrong (:mod:`.graph_faults`), and
    warns of it.
    """

    differentiable = False
    keeps_contract = False

    def __init__(self, name: str, translator: Translator, *, in_float64: bool) -> None:
        self.name, self._translator, self._in_float64 = name, translator, in_float64

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        translation = self._translator.translate(operator, args, kwargs)
        tensors = tensors_of(args, kwargs)
        outputs = evaluate(translation.model, tensors, in_float64=self._in_float64)
        if self._in_float64:
            expected = in_torch(operator, args, kwargs, translation.written)
            fault = fault_in(translation.model, tensors, expected)
            if fault:
                warnings.warn(GRAPH_FAULT + fault, stacklevel=2)
        elif steps(translation.model) < 2:
            warnings.warn(ONE_NODE, stacklevel=2)
        return translation.returned(outputs, tensors)
