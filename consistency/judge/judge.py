"""The judge: a comparison, the CPU's comparison in the same dtype, and a rule give a verdict. Sees
no tensor.

The order of checks: structure, special values, budget, statistics, for results that do not fail
what the call promises beside the numbers, and whether the case could have shown an error.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..core.contract import CHOSEN, DOCUMENTED, STATED
from ..core.detail import BrokenContract, ReferenceRaised
from ..core.model import Comparison, Measured
from ..core.verdict import OutcomeStatus, Verdict, VerdictKind
from .judgment import Judgment
from .output_judgment import judge_output
from .rule_values import Policy, Rule

_INCONCLUSIVE = Verdict(VerdictKind.INCONCLUSIVE)
# Differences beside the numbers that the policy on strides admits.
_LEFT_TO_THE_BACKEND = {
    "cpu": (),
    "stated": (CHOSEN,),
    "documented": (CHOSEN, STATED),
    "any": (CHOSEN, STATED, DOCUMENTED),
}


def judge(
    comparison: Comparison,
    baseline: Comparison | None,
    rule: Rule,
    policy: Policy,
    *,
    is_reference: bool = False,
) -> Judgment:
    """Judge one comparison. ``baseline`` is the CPU's in the same dtype; ``is_reference``: this
    outcome is its own reference."""
    if comparison.unsteady and comparison.status in ("ok", "fallback"):
        judgment = judge(
            replace(comparison, unsteady=""), baseline, rule, policy, is_reference=is_reference
        )
        return replace(
            judgment,
            verdict=Verdict(VerdictKind.NONDETERMINISTIC),
            explanation=f"{comparison.unsteady}; here: {judgment.explanation}",
        )
    if comparison.status == OutcomeStatus.FALLBACK:
        return _judge_fallback(comparison, baseline, rule, policy)
    if not comparison.ok:
        return _judge_status(comparison, baseline)
    if comparison.structure:
        return Judgment(
            Verdict(VerdictKind.STRUCTURE), comparison.structure, detail=comparison.detail
        )
    judgments = [
        judge_output(output, _matching_output(output, baseline), rule, policy)
        for output in comparison.outputs
    ]
    if not judgments:
        return Judgment(_INCONCLUSIVE, "the operator returned nothing to compare")
    worst = judgments[0] if len(judgments) == 1 else _most_severe(judgments)
    if _breaks_contract(comparison, worst.verdict, policy):
        return Judgment(
            Verdict(VerdictKind.STRUCTURE),
            comparison.contract,
            worst.metrics,
            output=worst.output,
            detail=comparison.detail,
        )
    if is_reference and worst.verdict.passes:
        text = "the CPU in this dtype is itself the reference: nothing independent to compare with"
        return Judgment(_INCONCLUSIVE, text, worst.metrics)
    return worst


def _breaks_contract(comparison: Comparison, verdict: Verdict, policy: Policy) -> bool:
    """Whether what differs beside the numbers decides: if the numbers do not fail, or fail because
    of it, as gradients do that are cut off, and if the policy does not leave it to the backend."""
    kind = comparison.detail.kind if isinstance(comparison.detail, BrokenContract) else ""
    if not comparison.contract or kind in _LEFT_TO_THE_BACKEND[policy.strides]:
        return False
    return not verdict.fails or kind == "gradient"


def _judge_fallback(
    comparison: Comparison, baseline: Comparison | None, rule: Rule, policy: Policy
) -> Judgment:
    """A fallback to the CPU is not tested, unless its result is wrong."""
    if comparison.outputs or comparison.structure:
        judgment = judge(replace(comparison, status=OutcomeStatus.OK), baseline, rule, policy)
        if judgment.verdict.fails:
            return replace(
                judgment, explanation=f"{judgment.explanation} ({_fell_back(comparison.note)})"
            )
    return Judgment(Verdict(VerdictKind.FALLBACK), comparison.note or "fallback")


_ATEN = re.compile(r"'(aten::[\w.]+)'")


def _fell_back(note: str) -> str:
    """``aten::elu.out fell back to the CPU``: a short form of torch's warning, which has 190
    characters; what else a note says as it is."""
    found = _ATEN.search(note)
    return f"{found[1]} fell back to the CPU" if found else f"it fell back: {note}"


def _most_severe(judgments: list[Judgment]) -> Judgment:
    """The most severe judgment, with the maxima of all metrics."""
    numbers: dict[str, float] = {}
    for judgment in judgments:
        for name, value in judgment.metrics.items():
            numbers[name] = max(numbers.get(name, 0.0), value)
    return replace(max(judgments, key=_severity), metrics=numbers)


def _severity(judgment: Judgment) -> tuple[int, float]:
    """Failures first (by ρ), then passes; `inconclusive` only if nothing could be judged."""
    rank = {"failed": 3, "warned": 2, "passed": 1, "not tested": 0}[judgment.verdict.group]
    return rank, judgment.metrics.get("rho_max", 0.0)


def _matching_output(output: Measured, baseline: Comparison | None) -> Measured | None:
    if baseline is None or not baseline.ok:
        return None
    return next((other for other in baseline.outputs if other.name == output.name), None)


def _judge_status(comparison: Comparison, baseline: Comparison | None) -> Judgment:
    note = comparison.note
    match comparison.status:
        case "both-raised":
            return Judgment(
                _INCONCLUSIVE,
                f"raises, and so does float64 on the CPU, so nothing could be compared: {note}",
            )
        case "raised":
            return Judgment(
                Verdict(VerdictKind.ERROR), f"raised where the reference did not: {note}"
            )
        case "no-reference":
            # That torch's CPU has no kernel for a dtype is no answer that a backend contradicts.
            if baseline is None or baseline.status in ("ok", "no-reference", "unsupported"):
                return Judgment(
                    _INCONCLUSIVE,
                    f"float64 on the CPU gives no reference: {note}",
                )
            return Judgment(
                Verdict(VerdictKind.ERROR),
                f"returned a result where the reference raised: {note}",
                detail=ReferenceRaised(),
            )
    return Judgment(Verdict(comparison.status), note or comparison.status, detail=comparison.detail)
