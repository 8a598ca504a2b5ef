"""The function :func:`assert_consistent`, which checks a function of the user's, and :func:`save`,
which keeps a result."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .. import backends as _backends
from ..backends.base import Backend
from ..backends.subprocess.backend import SubprocessBackend
from ..core import dtypes as _dtypes
from ..core.case_source import YOURS, call_source
from ..core.model import Case, Result
from ..core.trees import flatten
from ..core.verdict import VerdictKind
from ..diagnose.diagnosis_budget import DiagnosisBudget
from ..diagnose.evaluation import evaluate, unavailable
from ..errors import Divergence, UsageError, did_you_mean
from ..generate.materialize import case_of, prepare
from ..judge import tolerances as _tolerances
from ..judge.rule_values import Policy, Rule
from ..judge.rules import Rules
from ..operators.catalog.functions import name_of
from ..operators.declare import Operator
from ..reference import own_steps, quiet
from .checked_arguments import backends_of, directions_of, rule_of
from .marker_defaults import DEFAULTS
from .own_functions import rehearsed, taken_along, with_modules_bound
from .user_operators import HOOK_ERRORS, by_function, by_sensitivity, operator_for

_CORRECT = 0.5  # ulp: correct rounding
_COTANGENT = 1 << 20  # a position in the bitstream with enough numbers before it


def assert_consistent(
    fn: Callable[..., Any],
    *args: Any,
    reference: Callable[..., Any] | None = None,
    backends: Iterable[str | Backend] | None = None,
    rule: Rule | None = None,
    operator: str | None = None,
    directions: Iterable[str] | None = None,
    **kwargs: Any,
) -> tuple[Result, ...]:
    """Check that ``fn(*args, **kwargs)`` differs from float64 by rounding only; raise
    :class:`Divergence` if not.

    ``fn`` runs on each of ``backends`` (default: the CPU, in the dtype of the tensors given);
    ``reference`` (default: ``fn`` itself) runs in float64 on the same numbers. The error model is
    that of the operator whose function ``reference`` (or ``fn``) is, or of ``operator`` if named;
    any other function is judged by its sensitivity to its inputs. But a function composed of
    torch's, in float16, bfloat16 or float32, is judged by the roundings of its own steps
    (:mod:`consistency.reference.own_steps`). ``rule``, such as ``consistency.Rule(c=4, lam=2)``,
    gives c and λ for the first of these ways.
    ``directions`` (default: forward): ``"backward"`` judges the gradients of all floating tensors.
    In a test with the marker ``consistency``, its arguments are the defaults. Returns the results,
    whose ``explanation`` shows × budget. Tensors on other devices are brought to the CPU
    first. ``fn`` may be a module, or use modules and tensors from around it (closures, globals,
    attributes): these are taken along into float64 and onto each device, and what it writes to them
    (running statistics) is compared, too. Raises :class:`UsageError` for a function that draws
    random numbers, and for a tensor that cannot be taken along. The results of a Divergence hold
    the tensors, too: where ``fn`` is torch's own, its message ends with the command that calls it
    again, and :func:`save` keeps any of them.
    """
    __tracebackhide__ = True
    _refuse_mistakes(fn, reference, kwargs)
    marked = DEFAULTS.get()  # of the test that this is called in
    backends = marked.get("backends") if backends is None else backends
    backends = None if backends is None else backends_of(backends)
    rule = rule_of(marked.get("rule") if rule is None else rule)
    operator = marked.get("operator") if operator is None else operator
    directions = directions_of(
        marked.get("directions", "forward") if directions is None else directions
    )
    (fn, reference), args, kwargs = with_modules_bound((fn, reference), args, kwargs)
    model = operator_for(fn, reference, operator)
    case = case_of(
        model.name,
        _main_dtype(args, kwargs),
        args,
        kwargs,
        _COTANGENT if "backward" in directions else 0,
    )
    case = replace(case, source=_source(fn, reference, model))
    if not name_of(fn):
        model, case = taken_along(model, case)
    composed = rule is None and not name_of(fn) and by_function(fn) is None
    if composed:
        model = rehearsed(model, case)
    chosen = _backends.resolve_all(backends) if backends is not None else [_Plain()]
    for backend in chosen:
        if isinstance(backend, SubprocessBackend):
            text = (
                "runs in a process of its own, where a function of yours cannot be called; "
                "name the backend without @, +env: and"
            )
            raise UsageError(f"backend {backend.name!r} {text} +isolated")
    loaded: Rules = _tolerances.load() if rule is None else _OneRule(rule)
    missing = {b.name: reason for b in chosen if (reason := _backends.availability(b))}
    present = [backend for backend in chosen if backend.name not in missing]
    judged = functools.partial(evaluate, case, present, loaded, directions=directions)
    results = judged_by_own_steps(model, judged, case, composed) if present else ()
    results += tuple(
        unavailable(case, model, backend, direction, missing[backend.name])
        for backend in chosen
        if backend.name in missing
        for direction in directions
    )
    failing = tuple(r for r in results if not r.verdict.passes and not r.verdict.warns)
    if failing:
        from ..report.failure import message
        from ..report.rerun_hint import rerun_hint

        specs = _specs(backends or (), chosen)
        lines = []
        for number, result in enumerate(failing):
            hint = rerun_hint(result, f"error.results[{number}]", spec=specs.get(result.backend))
            if result.verdict.kind is VerdictKind.UNAVAILABLE:
                hint = ["  nothing was tested there: leave it out of backends=…, or skip the test"]
            lines += [message(result, again=False), *hint]
        raise Divergence("\n".join(lines), failing, specs)
    return results


def _specs(given: Sequence[Any], chosen: Sequence[Backend]) -> dict[str, str]:
    """What a command calls each backend that was given by a spec, by its name."""
    named = zip(given, chosen, strict=False)
    return {backend.name: spec for spec, backend in named if isinstance(spec, str)}


def _refuse_mistakes(fn: Any, reference: Any, kwargs: Mapping[str, Any]) -> None:
    """Raises UsageError for what is no function, and for a misspelled argument of our own."""
    for what, given in (("the first argument", fn), ("reference", reference)):
        if given is not None and not callable(given):
            raise UsageError(
                f"{what} is of type {type(given).__name__}, which cannot be called; give a "
                "function and its arguments: assert_consistent(model, x), not "
                "assert_consistent(model(x), x)"
            )
    for name, value in kwargs.items():
        hint = did_you_mean(name, _OWN)
        if hint and not _takes(fn, name, value):
            raise UsageError(f"assert_consistent: neither it nor the function takes {name!r}{hint}")


_OWN = ("reference", "backends", "rule", "operator", "directions")


def _takes(fn: Callable[..., Any], name: str, value: Any) -> bool:
    """Whether a function has such a parameter. Torch's own do not tell; none takes a function."""
    try:
        found = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return not callable(value)
    return name in found or any(p.kind is p.VAR_KEYWORD for p in found.values())


def judged_by_own_steps(
    model: Operator,
    judged: Callable[..., list[Result]],
    case: Case,
    composed: bool,
    budget: DiagnosisBudget | None = None,
    of_kernel: bool = False,
) -> tuple[Result, ...]:
    """The results; a function that may be ``composed`` of several rounding steps is judged by the
    roundings of its own steps. ``of_kernel``: they are the steps of a kernel's reference."""

    def by(operator: Operator, diagnosis_budget: DiagnosisBudget | None) -> tuple[Result, ...]:
        try:
            return tuple(judged(operator=operator, diagnosis_budget=diagnosis_budget))
        except HOOK_ERRORS as error:
            return tuple(
                judged(operator=by_sensitivity(operator, error), diagnosis_budget=diagnosis_budget)
            )

    budget = budget or DiagnosisBudget()
    if not composed:
        return by(model, budget)
    first = () if of_kernel else by(model, None)
    if first and all(
        result.verdict.passes and result.metrics.get("ulp_max", 0.0) <= _CORRECT for result in first
    ):
        return first
    with quiet():
        step_model = own_steps.as_composed(model, prepare(case), of_kernel=of_kernel)
    results = by(step_model or model, budget)
    if not isinstance(step_model, own_steps.Composed) or of_kernel or not step_model.shorter:
        return results
    formats = " and ".join(step_model.shorter)
    text = f"its own steps round to {formats}, which is admitted here, and not by consistency.check"
    return tuple(
        replace(r, explanation=f"{r.explanation}; {text}") if r.verdict.passes else r
        for r in results
    )


def _source(fn: Callable[..., Any], reference: Callable[..., Any] | None, model: Operator) -> str:
    """The function called: torch's own if a case can name it and it is its own reference, else the
    user's."""
    name = name_of(fn) if reference is None or reference is fn else ""
    if name:
        return call_source(name, model.mutates)
    return f"{YOURS}/{getattr(fn, '__qualname__', type(fn).__name__)}"


def save(
    result: Result, folder: str | Path, *, spec: str | None = None, fn: Callable[...,
    Any] | None = None,
    reference: Callable[..., Any] | None = None,
) -> Path:  # fmt: skip
    """Keep a result in a new folder, which ``consistency repro FOLDER`` takes, also on another
    machine; returns the folder.

    It holds the case with its tensors, a script of torch alone (repro.py) and the text of an issue
    (issue.md). ``spec`` is the backend as it is written after ``--backend``, where that is not its
    name. ``fn`` (and ``reference``) is your own function that was checked, so that the script can
    be made of what it calls in torch. Raises UsageError where the folder cannot be written, or
    holds something already.
    """
    from ..report import repro_script

    return repro_script.keep(
        folder,
        result,
        spec=spec,
        operator=None if fn is None else _kept_operator(result, fn, reference),
    )


def _kept_operator(
    result: Result, fn: Callable[..., Any], reference: Callable[..., Any] | None
) -> Operator:
    """The operator of a kept result, with what ``fn`` captures as the arguments that the case
    has."""
    operator = operator_for(fn, reference, None)
    if name_of(fn):
        return operator
    return rehearsed(taken_along(operator, result.case)[0], result.case)


class _Plain(Backend):
    """The CPU, but not as its own reference: a user's function is judged in float64, too."""

    name = "cpu"


class _OneRule:
    """Tolerances with a single rule."""

    expectations: tuple[Any, ...] = ()

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def rule(self, operator: str, dtype: str, **where: Any) -> Rule:
        return self._rule

    def policy(self, backend: str, **where: Any) -> Policy:
        return _tolerances.load().policy(backend, **where)


def _main_dtype(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The floating dtype of the first floating tensor, else that of the first tensor."""
    names = [
        _dtypes.name_of(a.dtype)
        for a in (*flatten(list(args)), *flatten(dict(kwargs)))
        if isinstance(a, torch.Tensor)
    ]
    if not names:
        raise UsageError("assert_consistent needs at least one tensor among its arguments")
    return next((name for name in names if name in _dtypes.FORMATS), names[0])
