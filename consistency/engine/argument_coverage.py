"""Which dtypes of torch's operators are not drawn, and which defaulted arguments never took their
default or never left it."""

from __future__ import annotations

import fnmatch
import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..core import dtypes
from ..core.model import Case
from ..errors import UsageError
from ..generate.calls import opinfo
from ..generate.search import batch
from ..judge.known.argument_names import aten_name, positions_of
from ..operators.catalog.signature import signature
from ..operators.declare import Operator

EXAMPLES = 50  # cases in which an argument must be seen both ways
_DRAWABLE = frozenset({*dtypes.FORMATS, *dtypes.INTEGER_RANGE, *dtypes.PARTS})
# Why torch takes a dtype that is not drawn (globs of operator and dtype, where a lone * stands for
# what is not drawn); the first match counts.
DTYPE_REASONS: tuple[tuple[str, str, str], ...] = (
    ("*softm*", "*", "only where a result dtype is given: softmax.with_dtype is drawn"),
    ("*matrix_exp", "*float16", "not one result is right in half precision (docs/findings.md)"),
    ("angle", "*", "the angle of what has no sign is 0"),
    ("*", "complex*", "no error model for complex numbers yet"),
    ("*", "*float16", "no error model for half precision yet"),
    ("*", "*", "not declared yet"),
)
# Why an argument does not vary (globs of operator and argument); the first match counts.
ARGUMENT_REASONS: tuple[tuple[str, str, str], ...] = (
    ("*", "device", "where a tensor lies, not what it holds"),
    ("*", "layout", "sparse tensors are not drawn"),
    ("*", "pin_memory", "where a tensor lies, not what it holds"),
    ("*", "non_blocking", "when a copy ends, not what it holds"),
    ("*", "requires_grad", "asked for by the direction, not by the case"),
    ("*", "names", "named tensors are not drawn"),
    ("*", "out", "a form of its own: NAME.out"),
    ("*", "inplace", "a form of its own: NAME_"),
    ("*", "generator", "random numbers are judged by their distribution"),
    ("*", "size_average", "deprecated by torch: see reduction"),
    ("*", "reduce", "deprecated by torch: see reduction"),
    ("*", "_stacklevel", "which line a warning names"),
    ("*", "dtype", "results in another dtype are operators of their own (softmax.with_dtype)"),
    ("*", "memory_format", "brought about by the layouts of arguments"),
    ("*", "implicit", "of traces: it changes no result"),
    ("*", "check_errors", "raises for singular matrices, which have no result"),
    ("*", "sparse*", "gradients are the same numbers, as a list of rows"),
    ("*", "driver", "of CUDA alone"),
    ("linalg.lu*", "pivot", "of CUDA alone"),
    ("nn.functional.embedding*", "max_norm", "the table is scaled in place first"),
    ("nn.functional.embedding*", "norm_type", "the table is scaled in place first"),
    ("*dot_product_attention", "dropout_p", "random numbers are judged by their distribution"),
    ("*dot_product_attention", "enable_gqa", "an operator of its own: grouped_query_attention"),
    ("sort", "reverse", "of Python lists"),
    ("isin", "assume_unique", "a promise that a smaller case would not keep"),
    ("cross", "dim", "torch warns where it is left out"),
    ("meshgrid", "indexing", "torch warns where it is left out"),
    ("nn.functional.softmin", "dim", "torch warns where it is left out"),
    ("nn.functional.kl_div", "reduction", "torch warns where it is left out"),
    ("*", "align_corners", "torch warns where it is left out"),
    ("stft", "return_complex", "torch refuses real results"),
    ("stft", "align_to_window", "torch 2.4 has no such argument"),
    ("istft", "window", "torch warns without one"),
    ("*.train_then_eval", "momentum", "without it the running statistics barely move"),
    ("*", "distance_function", "a function, which no case holds"),
    ("formula.*", "*", "a formula is compared with its operator, whose arguments vary"),
    ("*", "*", "not varied yet"),
)


@dataclass(frozen=True)
class Unvaried:
    """An argument that in the drawn cases never ``left`` or never ``took`` its default."""

    operator: str
    argument: str
    missing: str
    reason: str


def dtypes_offered(chosen: Iterable[Operator]) -> dict[str, frozenset[str]] | None:
    """What torch's operator database says each operator takes on the CPU, of the dtypes that can be
    drawn; None where the database is not installed."""
    known = {operator.name for operator in chosen}
    offered: dict[str, set[str]] = defaultdict(set)
    try:
        database = opinfo.database()
    except UsageError:
        return None
    for entry in database:
        if entry.name in known:
            offered[entry.name] |= {
                name for name in map(dtypes.name_of, entry.dtypes) if name in _DRAWABLE
            }
    return {name: frozenset(names) for name, names in offered.items()}


def dtypes_missing(
    chosen: Iterable[Operator], offered: dict[str, frozenset[str]]
) -> dict[str, str]:
    """Pairs of operator and dtype that torch takes and that are not drawn, with the reason."""
    return {
        f"{operator.name} {dtype}": reason(DTYPE_REASONS, operator.name, dtype)
        for operator in chosen
        for dtype in sorted(offered.get(operator.name, frozenset()) - {*operator.dtypes})
    }


def unvaried(operator: Operator, examples: int = EXAMPLES) -> list[Unvaried]:
    """The defaulted arguments of one operator that ``examples`` cases of its first dtype show in
    one way only. None for operators whose cases come from elsewhere."""
    if operator.callable is None or operator.cases is not None or operator.form_of is not None:
        return []
    cases = batch(operator, operator.dtypes[0], examples)
    found = []
    places = positions_of(operator.name)
    for name, default in sorted(defaults(operator).items()):
        given = [_given(case, name, places.get(name), default) for case in cases]
        for missing, seen in (("left", any(given)), ("took", not all(given))):
            if not seen:
                why = reason(ARGUMENT_REASONS, operator.name, name)
                found.append(Unvaried(operator.name, name, missing, why))
    return found


def defaults(operator: Operator) -> dict[str, Any]:
    """The arguments with a default, of the Python function or else of every overload in ATen."""
    try:
        parameters = inspect.signature(operator.callable).parameters.values()  # type: ignore[arg-type]
        return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    except (ValueError, TypeError):
        return dict(_schema_defaults(operator))


def _schema_defaults(operator: Operator) -> Iterator[tuple[str, Any]]:
    packet = getattr(torch.ops.aten, aten_name(operator), None)
    for overload in packet.overloads() if packet is not None else ():
        found = signature(getattr(packet, overload))
        if not found.only_written:  # those with out=
            yield from ((p.name, p.default) for p in found.parameters if p.has_default)


def _given(case: Case, name: str, position: int | None, default: Any) -> bool:
    """Whether the case's argument is another than its default."""
    if name in case.kwargs:
        value: Any = case.kwargs[name]
    elif position is not None and position < len(case.args):
        value = case.args[position]
    else:
        return False
    return repr(value) != repr(default)


def reason(reasons: Iterable[tuple[str, str, str]], operator: str, what: str) -> str:
    """The first reason whose globs match."""
    return next(
        words
        for operators, names, words in reasons
        if fnmatch.fnmatchcase(operator, operators) and fnmatch.fnmatchcase(what, names)
    )
