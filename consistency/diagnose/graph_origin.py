"""Where the error of a runtime that runs translated graphs arises: in the translation or in the
runtime.

onnx's reference evaluator runs the same graph twice, in its own dtypes and in float64, and each
answer is judged as the runtime's is:

==================  =============  ==========================================================
in the graph's own  in float64     the error is
==================  =============  ==========================================================
right               (any)          the runtime's: the graph can be computed rightly as it is
wrong               wrong          the translation's, if the evaluator's answer is the runtime's:
                                   two programs agree on what the graph says
wrong               right          the translation's: its steps lose precision or leave the format,
                                   if there are several and they err
                                   by as much as the runtime
==================  =============  ==========================================================

Anything else proves nothing, and nothing is said: the evaluator has faults of its own.
"""

from __future__ import annotations

import math

import numpy as np

from ..backends.runtimes import (
    EVALUATED,
    EVALUATED_IN_FLOAT64,
    GRAPH_EVALUATORS,
    GRAPH_FAULT,
    ONE_NODE,
    UNOPTIMIZED,
)
from ..core.model import Evidence, Origin, Outcome, Output
from ..core.verdict import OutcomeStatus, VerdictKind
from ..judge.compare import compare
from ..operators.refusals import REFUSALS
from .attribution.simulation import flat
from .experiments import FlaggedResult

_AS_MUCH = 16.0  # times the evaluator's error: a larger one of the runtime has another reason
_SAME = 0.1  # of the runtime's error: two programs round differently
_NO_ANSWER = (VerdictKind.CRASH, VerdictKind.TIMEOUT)


def graph_origin(flagged: FlaggedResult, evidence: Evidence) -> Origin | None:
    """The stage at which a failure arises; None of a backend without graphs, or where the
    evaluations prove nothing."""
    if flagged.backend.is_recorded or flagged.direction != "forward":
        return None
    variants = flagged.backend.variants()
    if not all(name in variants for name in GRAPH_EVALUATORS):
        return None
    kind = flagged.judgment.verdict.kind
    if kind is VerdictKind.NONDETERMINISTIC or evidence.other:
        return Origin("runtime", "the same graph gives other answers")
    plain = flagged.rerun(variants[EVALUATED])
    if kind in _NO_ANSWER:  # the exporter, too, may take too long or crash
        return Origin("runtime", f"{_EVALUATOR} answers") if plain.ok else None
    wide = flagged.rerun(variants[EVALUATED_IN_FLOAT64])
    if plain.ok and _passes(flagged, plain):
        return Origin("runtime", f"right in {_EVALUATOR}")
    if flagged.judgment.verdict.kind is VerdictKind.ERROR:
        return _refused(flagged, plain, wide)
    if not plain.ok or not wide.ok:
        return _without_optimizations(evidence)
    if _passes(flagged, wide):
        as_much = flagged.judgment.metrics.get("rho_max", 0.0) <= _AS_MUCH * flagged.rho(plain)
        if as_much and ONE_NODE not in plain.warnings:
            return Origin("translation", "its steps lose precision; in float64 the graph is right")
        return _without_optimizations(evidence)
    fault = next((text for text in wide.warnings if text.startswith(GRAPH_FAULT)), "")
    if _same_answer(flagged, plain) or _same_answer(flagged, wide):
        return Origin("translation", fault.removeprefix(GRAPH_FAULT) or f"alike in {_EVALUATOR}")
    return _without_optimizations(evidence)


_EVALUATOR = "onnx's reference evaluator"


def _refused(flagged: FlaggedResult, plain: Outcome, wide: Outcome) -> Origin | None:
    """Of a graph that the runtime refuses, or one that gives numbers where torch raises."""
    if flagged.outcome.status is OutcomeStatus.OK:
        return Origin("translation", "the graph lacks torch's check") if plain.ok else None
    if plain.ok or wide.ok:
        return None  # it runs elsewhere, with another result
    return Origin("translation", f"{_EVALUATOR} refuses the graph, too")


def _without_optimizations(evidence: Evidence) -> Origin | None:
    """What is known where the evaluator cannot tell."""
    if evidence.trials.get(UNOPTIMIZED, math.inf) <= 1.0:
        return Origin("runtime", "right without its graph optimizations")
    return None


def _passes(flagged: FlaggedResult, outcome: Outcome) -> bool:
    judged = flagged.judge_comparison(compare(outcome, flagged.reference, flagged.baseline))
    return not judged.verdict.fails


def _same_answer(flagged: FlaggedResult, evaluated: Outcome) -> bool:
    """Whether the evaluator errs as the runtime does: its answer is nearer to the runtime's than
    a tenth of the runtime's error, in every output."""
    try:
        ours = flagged.reference.observed(flagged.outcome.outputs)
        theirs = flagged.reference.observed(evaluated.outputs)
    except REFUSALS:
        return False
    if not len(ours) == len(theirs) == len(flagged.reference.outputs):
        return False
    triples = zip(ours, theirs, flagged.reference.outputs, strict=True)
    return all(_errs_alike(one, other, right) for one, other, right in triples)


def _errs_alike(runtime: Output, evaluated: Output, right: Output) -> bool:
    if runtime.tensor is None or evaluated.tensor is None or right.tensor is None:
        return True
    if runtime.tensor.shape != evaluated.tensor.shape or runtime.dtype != evaluated.dtype:
        return False
    a, b = flat(runtime.tensor), flat(evaluated.tensor)
    finite = np.isfinite(a) & np.isfinite(b)
    if not ((a == b) | (np.isnan(a) & np.isnan(b)) | finite).all():
        return False
    if runtime.tensor.shape != right.tensor.shape:
        return np.array_equal(a[finite], b[finite])
    expected = flat(right.tensor)
    finite &= np.isfinite(expected)
    distance = float(np.max(np.abs(a - b)[finite], initial=0.0))
    error = float(np.max(np.abs(a - expected)[finite], initial=0.0))
    return distance <= _SAME * error or bool((a == b)[finite].all())
