"""The format whose unit roundoff measures an output: mostly its own. Where tensors of several
formats meet, that of the steps by which it is computed.

torch promotes the operands of one elementwise kernel, so that its result has the digits of the
finest of them (`type promotion
<https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc>`_); a destination
of more digits adds none. What is composed of several calls, and every formula of a gradient, takes
some steps on a tensor of few digits alone, and these have its digits.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..core.dtypes import FORMATS, Format, form_of
from ..core.recipe import DType, Literal, TensorRecipe
from ..operators.declare import Operator
from ..reference import Reference

# Families of which each call is one kernel for all its operands.
PROMOTING = frozenset({"binary", "comparison", "foreach", "inplace", "ternary", "unary"})
DOUBLE = "float_power"  # computed in float64, whatever its operands are
WRITTEN = "arg/"  # how names of outputs begin that are arguments
DEFAULT = FORMATS["float32"]  # what whole numbers are computed in (torch.get_default_dtype)


def working_format(dtype: str, shape: tuple[int, ...], reference: Reference, name: str) -> Format:
    """The format of the output of this name, dtype and shape.

    Its digits are those of the coarsest step. Its range is its own: what other operands hold is
    not converted to the format of one. What is written to a destination has passed the steps'
    range; but what lies beside it is as it was."""
    case = reference.materials.case
    own = form_of(case.dtype)
    whole = form = form_of(dtype) or own or DEFAULT
    if own is not None and own.precision < form.precision and _is_of_a_number(shape, reference):
        form = own
    if case.tensors and all(tensor.dtype == case.dtype for tensor in case.tensors):
        asked = _asked_for(reference)
        return form if asked is None else min(form, asked, key=_digits)
    formats = (form, *_of_steps(reference))
    found = min(formats, key=_digits)
    ranges = [whole, *_of_range(reference, formats)]
    least, most = max(r.min_exponent for r in ranges), min(r.max_exponent for r in ranges)
    if name.startswith(WRITTEN) and _holds_more(reference, name, most):
        most = whole.max_exponent
    return Format(found.precision, max(least, found.min_exponent), most)


def first_rounding(reference: Reference) -> float:
    """The unit roundoff of the steps before a destination of fewer digits, in which the result is
    rounded once more; 0 where there is none."""
    case, written = reference.materials.case, _written(reference.operator)
    if not written or reference.direction == "backward":
        return 0.0
    own = form_of(case.tensors[0].dtype)
    steps = list(_of_steps(reference))
    finer = [each for each in steps if own is not None and each.precision > own.precision]
    return max((each.unit_roundoff for each in finer), default=0.0)


def _of_range(reference: Reference, formats: Iterable[Format]) -> Iterable[Format]:
    """The formats that numbers pass wholly: what is written to a destination, and what is written
    to comes back as the cotangent."""
    operator, case = reference.operator, reference.materials.case
    if reference.direction == "forward":
        yield from formats if _written(operator) else ()
    elif operator.mutates and (form := form_of(case.tensors[0].dtype)) is not None:
        yield form


def _holds_more(reference: Reference, name: str, exponent: int) -> bool:
    """Whether the memory that is written to held numbers beyond that power of two."""
    before = np.abs(reference.materials.bases[int(name.removeprefix(WRITTEN))].astype(np.float64))
    return bool((np.isfinite(before) & (before >= 2.0 ** min(exponent + 1, 1023))).any())


def _digits(form: Format) -> int:
    return form.precision


def _written(operator: Operator) -> int:
    """How many destinations stand before the operands."""
    return operator.leading if operator.form_of is not None else 0


def _of_steps(reference: Reference) -> Iterable[Format]:
    """The formats that steps before the output have."""
    if (asked := _asked_for(reference)) is not None:
        yield asked
    case, written = reference.materials.case, _written(reference.operator)
    forward = reference.direction == "forward"
    if forward and reference.model.kind == "exact":
        return  # nothing is computed
    given = case.tensors[written:]
    operands = [t for t in given if _has_dimensions(t)] or given
    found = {form for t in operands if (form := form_of(t.dtype)) is not None}
    by_digits = sorted(found, key=_digits)
    if forward and reference.operator.ruled_by[0].startswith(DOUBLE):
        yield FORMATS["float64"]
    elif not forward or _family(reference) not in PROMOTING:
        yield from by_digits[:1]
    elif written and operands:
        yield by_digits[-1] if by_digits else DEFAULT


def _family(reference: Reference) -> str:
    return reference.operator.ruled_by[1]


def _is_of_a_number(shape: tuple[int, ...], reference: Reference) -> bool:
    """Whether an output in a wider format than the case's is the gradient of a single number beside
    tensors: it has the number's format, and is computed in that of the results, which a tensor
    without dimensions does not widen (torch's type promotion)."""
    case = reference.materials.case
    own = form_of(case.dtype)
    if shape or reference.direction == "forward" or own is None:
        return False
    formats = (form_of(tensor.dtype) for tensor in case.tensors if _has_dimensions(tensor))
    return all(form is None or form.precision <= own.precision for form in formats)


def _asked_for(reference: Reference) -> Format | None:
    """The format that a call asks for (``sum(x, dtype=torch.float32)``), of its gradients: where it
    has fewer digits than the tensors, they are computed in it."""
    case = reference.materials.case
    if reference.direction == "forward":
        return None
    asked = (arg for arg in (*case.args, *case.kwargs.values()) if isinstance(arg, DType))
    return next((form_of(arg.name) for arg in asked), None)


def _has_dimensions(tensor: TensorRecipe | Literal) -> bool:
    return bool(tensor.shape if isinstance(tensor, Literal) else tensor.base)


__all__ = ["first_rounding", "working_format"]
