"""The rules for one backend: a comparison is judged by those of its operator, dtype, direction and
device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..backends.base import Backend
from ..backends.cpu import Cpu
from ..core.dtypes import FORMATS, PARTS
from ..core.model import Comparison
from ..judge.judge import judge
from ..judge.judgment import Judgment
from ..judge.rule_values import Policy
from ..judge.rules import Rules
from ..operators.declare import Operator
from ..reference import Reference


def judgment(
    operator: Operator, backend: Backend, direction: str, twin: Comparison | None,
    reference: Reference, rules: Rules,
    comparison: Comparison,
) -> Judgment:  # fmt: skip
    """Judge a comparison by the rules for this operator, dtype, direction and backend; ``twin``
    is the comparison of the CPU."""
    dtype = reference.dtype
    # Integers may give floats (the sine of an int64): the float is judged.
    output_formats = [o.dtype for o in comparison.outputs if o.dtype in FORMATS]
    judged_as = _judged_as(dtype, output_formats, direction)
    device = {
        "device": backend.identity.get("device", ""),
        "driver": backend.identity.get("driver", ""),
    }
    name, family = operator.ruled_by
    rule = rules.rule(
        name,
        judged_as,
        family=family,
        direction=direction,
        backend=backend.tolerance_key or backend.name,
        **device,
    )
    is_plain_cpu = (
        backend.name.partition("#")[0] == "cpu"
        if backend.is_recorded
        else isinstance(backend, Cpu) and not backend.switched
    )
    is_reference = is_plain_cpu and not reference.independent
    if family == "cast" and judged_as != dtype and rule.c > 0.5:
        # a conversion that the column lets round in another direction is not owed exactly
        outputs = tuple(replace(output, exact=False) for output in comparison.outputs)
        comparison = replace(comparison, outputs=outputs)
    return judge(
        comparison,
        twin,
        rule,
        policy_of(operator, backend, judged_as, rules),
        is_reference=is_reference,
    )


def _judged_as(dtype: str, floating: Sequence[str], direction: str) -> str:
    """The format whose rules apply: that of the results (``sum(x, dtype=torch.float16)``, half
    precision beside float32), of gradients that of the case if it is shorter."""
    if dtype not in FORMATS:
        return dtype if dtype in PARTS else next(iter(floating), dtype)
    shortest = min(floating, key=lambda name: FORMATS[name].precision, default=dtype)
    if direction == "forward":
        return shortest
    return shortest if FORMATS[shortest].precision < FORMATS[dtype].precision else dtype


def policy_of(operator: Operator, backend: Backend, dtype: str, rules: Rules) -> Policy:
    device = {
        "device": backend.identity.get("device", ""),
        "driver": backend.identity.get("driver", ""),
    }
    name, family = operator.ruled_by
    return rules.policy(
        backend.tolerance_key or backend.name, operator=name, family=family, dtype=dtype, **device
    )
