"""The three main functions of the public interface: :func:`run`, :func:`assert_consistent`,
:func:`compare`."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from .. import backends as _backends
from .. import operators
from ..backends.base import Backend
from ..backends.subprocess.backend import SubprocessBackend
from ..core import dtypes as _dtypes
from ..core.case_source import YOURS, call_source
from ..core.model import DIRECTIONS, Case, Comparison, Evidence, Outcome, Output, Result
from ..core.trees import flatten
from ..core.verdict import OutcomeStatus, VerdictKind
from ..diagnose.diagnosis import DiagnosisBudget, cause_of
from ..diagnose.evaluation import _shapes, evaluate, unavailable
from ..engine import engine
from ..engine.events import Handler
from ..engine.fingerprints import Fingerprints
from ..engine.resume import earlier_results
from ..errors import Divergence, OutputError, UsageError
from ..generate.calls.generic_error import longest_dimension
from ..generate.materialize import case_of, prepare
from ..judge import tolerances as _tolerances
from ..judge.compare import compare as _compare
from ..judge.judge import judge
from ..judge.reconsideration import reconsider
from ..judge.rules import Rules
from ..judge.tolerances import Rule, Tolerances
from ..operators.catalog.functions import name_of
from ..operators.declare import NORMWISE, Operator, call
from ..reference import Reference, own_steps, quiet
from ..report import bundles
from ..storage.provenance import is_own_folder


def run(
    operators: Iterable[str | Operator] | None = None,
    backends: Iterable[str | Backend] | None = None,
    dtypes: Iterable[str] | None = None,
    directions: Iterable[str] = DIRECTIONS,
    examples: int = 50,
    seed: int = 0,
    time_budget: float | None = None,
    tolerances: str | Path | Tolerances | None = None,
    out: str | Path | None = None,
    *,
    handlers: Sequence[Handler] = (),
    resume: bool = False,
    reference: str = "spot",
    source: str = "drawn",
    case_timeout: float = 30.0,
    corpus: str | Path | None = None,
    expectations: Iterable[str | Path] | str | Path = (),
    jobs: int | None = None,
    exhaustive: bool | None = None,
    shipped: bool = True,
) -> engine.Run:
    """Draw cases of ``operators``, run them on ``backends``, and judge every result against
    float64.

    ``operators``: names, globs (``"nn.functional.*"``), ``"family:pooling"`` or Operator objects;
    None for all. ``backends``: specs or Backend objects; None for every one available here.
    ``dtypes``: None for each operator's own. ``examples``: fresh cases per operator × dtype.
    ``time_budget``: seconds, or None. ``tolerances``: a tolerances.yaml. ``out``: a folder for the
    bundle; with ``resume`` an interrupted bundle there is completed. ``handlers`` are called with
    every event. ``reference``: what results are judged against: ``"float64"`` on the CPU, that with
    some elements proved (``"spot"``), or all (``"verified"``). ``source``: ``"opinfo"`` takes the
    samples of PyTorch's own operator database in place of drawn cases. ``case_timeout``: seconds
    that one case may take on a backend in a process of its own (accelerators, ``+isolated``,
    ``@PYTHON``, ``+env:NAME=VALUE``). ``corpus``: a folder whose cases are replayed; others are
    drawn after that only if there is a time budget. ``expectations``: a file of known divergences,
    or several, beside those that ``tolerances`` lists. ``jobs``: how many processes of this machine
    judge, None for this one; their backends must be named by specs. ``exhaustive``: beside the
    examples, every number of 16 bits for functions of single elements (None), also every float32
    and pairs of chosen numbers (True), or neither (False). ``shipped``: whether each operator ×
    dtype begins with the cases that come with the package, which are not counted as examples.

    Raises UsageError, ConfigurationError, BundleError or OutputError with one clear line; the last
    one, where the bundle cannot be written, has the ``results`` judged until then.
    """
    replay = None
    if corpus is not None:
        from ..storage.corpus.reading import load

        replay = load(Path(corpus))
    config = engine.configure(
        operators, backends, dtypes, directions, examples, seed, time_budget, tolerances,
        reference=reference, source=source,
        case_timeout=case_timeout, expectations=expectations, corpus=replay,
        explore=replay is None or time_budget is not None, exhaustive=exhaustive,
        shipped=shipped,
    )  # fmt: skip
    executor: engine.Executor | None = None
    if jobs is not None:
        from ..engine.executors.processes import ProcessExecutor

        files = [expectations] if isinstance(expectations, (str, Path)) else list(expectations)
        executor = ProcessExecutor(config, jobs, expectations=[str(file) for file in files])
    collect = engine.Collect()
    written: list[Handler] = []
    resumed = None
    folder = Path(out) if out is not None else None
    with contextlib.ExitStack() as stack:
        if folder is not None:
            from ..engine.known import status
            from ..report import page

            resumed = earlier_results(folder) if resume else None
            own = corpus is None or is_own_folder(Path(corpus))
            writer = bundles.writer(folder, resume=resume, own=own)
            stack.callback(writer.close)
            written = [
                writer, status.StatusWriter(folder), Fingerprints(folder), page.after(folder),
            ]  # fmt: skip
        # An exception in the caller's handler loses no result: the writer already has it.
        try:
            engine.drive(config, [collect, *written, *handlers], resumed, executor)
        except OutputError as error:
            results = tuple(collect.results)
            raise error.then("complete it with resume=True", results) from None
    return engine.Run(
        tuple(collect.results), config, collect.seconds, folder, tuple(collect.scalings)
    )


def assert_consistent(
    fn: Callable[..., Any],
    *args: Any,
    reference: Callable[..., Any] | None = None,
    backends: Iterable[str | Backend] | None = None,
    rule: Rule | None = None,
    operator: str | None = None,
    directions: Iterable[str] = ("forward",),
    **kwargs: Any,
) -> tuple[Result, ...]:
    """Check that ``fn(*args, **kwargs)`` differs from float64 by rounding only; raise
    :class:`Divergence` if not.

    ``fn`` runs on each of ``backends`` (default: the CPU, in the dtype of the tensors given);
    ``reference`` (default: ``fn`` itself) runs in float64 on the same numbers. The error model is
    that of the operator whose function ``reference`` (or ``fn``) is, or of ``operator`` if named;
    any other function is judged by its sensitivity to its inputs. But a function composed of
    torch's, in float16, bfloat16 or float32, is judged by the roundings of its own steps
    (:mod:`consistency.reference.own_steps`). ``rule`` gives c and λ for the first of these ways.
    ``directions``: ``"backward"`` judges the gradients of all floating tensors. Returns the
    results, whose ``explanation`` shows × budget. Tensors on other devices are brought to the CPU
    first. The results of a Divergence hold the tensors, too: where ``fn`` is torch's own, its
    message ends with the command that calls it again, and :func:`save` keeps any of them.
    """
    directions = tuple(directions)
    model = _operator_for(fn, reference, operator)
    case = case_of(
        model.name,
        _main_dtype(args, kwargs),
        args,
        kwargs,
        _COTANGENT if "backward" in directions else 0,
    )
    case = replace(case, source=_source(fn, reference, model))
    chosen = _backends.resolve_all(backends) if backends is not None else [_Plain()]
    for backend in chosen:
        if isinstance(backend, SubprocessBackend):
            text = (
                "runs in a process of its own, where a function of yours cannot be called; "
                "name the backend without @, +env: and"
            )
            raise UsageError(f"backend {backend.name!r} {text} +isolated")
    loaded: Rules = _tolerances.load() if rule is None else _OneRule(rule)
    composed = rule is None and not name_of(fn) and _by_function(fn) is None
    missing = {b.name: reason for b in chosen if (reason := _backends.availability(b))}
    present = [backend for backend in chosen if backend.name not in missing]
    judged = functools.partial(evaluate, case, present, loaded, directions=directions)
    results = _judged(model, judged, case, composed) if present else ()
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

        lines = []
        for number, result in enumerate(failing):
            hint = rerun_hint(result, f"error.results[{number}]")
            if result.verdict.kind is VerdictKind.UNAVAILABLE:
                hint = ["  nothing was tested there: leave it out of backends=…, or skip the test"]
            lines += [message(result, again=False), *hint]
        raise Divergence("\n".join(lines), failing)
    return results


def _judged(
    model: Operator, judged: Callable[..., list[Result]], case: Case, composed: bool
) -> tuple[Result, ...]:
    """The results; a function that may be ``composed`` of several rounding steps is judged by the
    roundings of its own steps."""

    def by(operator: Operator, diagnosis_budget: DiagnosisBudget | None) -> tuple[Result, ...]:
        try:
            return tuple(judged(operator=operator, diagnosis_budget=diagnosis_budget))
        except _HOOK_ERRORS as error:
            return tuple(
                judged(operator=_by_sensitivity(operator, error), diagnosis_budget=diagnosis_budget)
            )

    if not composed:
        return by(model, DiagnosisBudget())
    first = by(model, None)
    if all(
        result.verdict.passes and result.metrics.get("ulp_max", 0.0) <= _CORRECT for result in first
    ):
        return first
    with quiet():
        step_model = own_steps.as_composed(model, prepare(case))
    return by(step_model or model, DiagnosisBudget())


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
        operator=None if fn is None else _operator_for(fn, reference, None),
    )


_GENERIC_ERROR = replace(NORMWISE, terms=longest_dimension)
# Errors of an error model for arguments given by keyword, or left out.
_HOOK_ERRORS = (LookupError, TypeError, AttributeError)


_CORRECT = 0.5  # ulp
_COTANGENT = 1 << 20  # a position in the bitstream with enough numbers before it


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

    def policy(self, backend: str, **where: Any) -> _tolerances.Policy:
        return _tolerances.load().policy(backend, **where)


def _operator_for(
    fn: Callable[..., Any], reference: Callable[..., Any] | None, name: str | None
) -> Operator:
    operator = (
        operators.get(name)
        if name is not None
        else _by_function(reference or fn) or _by_function(fn)
    )
    if operator is None:
        title = getattr(fn, "__qualname__", type(fn).__name__)
        model = _GENERIC_ERROR
        return Operator(
            name=title,
            family="user",
            sample=lambda d: call(),
            function=fn,
            reference=reference,
            error=model,
        )
    values = {
        f: getattr(operator, f)
        for f in (
            "name",
            "family",
            "sample",
            "error",
            "traits",
            "observe",
            "alternatives",
            "ranges",
        )
    }
    return Operator(
        **values, function=fn, reference=reference or operator.reference, mutates=operator.mutates
    )


def _by_function(fn: Callable[..., Any]) -> Operator | None:
    """The operator of ``fn``: by identity, or for torch's own functions by name (``F.softmax`` is
    ``softmax``)."""
    declared = operators.registry()
    match = next((o for o in declared.values() if o.function is None and o.callable is fn), None)
    if match is not None or not (getattr(fn, "__module__", None) or "").startswith("torch"):
        return match
    return declared.get(getattr(fn, "__name__", ""))


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


def compare(
    actual: Any,
    expected_float64: Any = None,
    operator: str | Operator = "",
    args: Sequence[Any] = (),
    dtype: str | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    tolerances: str | Path | Tolerances | None = None,
    backend: str = "given",
) -> Result:
    """Judge tensors that were computed elsewhere.

    ``actual`` is what a backend returned for ``operator(*args, **kwargs)``; ``expected_float64``
    the float64 result, or None to compute it here from ``args``. ``dtype`` is the tested dtype
    (default: that of ``actual``). S and n come from ``args``. Raises UsageError when
    ``expected_float64`` is not in float64, or not of the shape that the operator gives for
    ``args``.
    """
    model = operators.get(operator) if isinstance(operator, str) else operator
    got = [item for item in flatten(actual) if isinstance(item, torch.Tensor)]
    dtype = dtype or (_dtypes.name_of(got[0].dtype) if got else "float32")
    case = case_of(model.name, dtype, tuple(args), dict(kwargs or {}))
    outputs = tuple(
        Output(f"out/{i}", t.detach().cpu(), _dtypes.name_of(t.dtype)) for i, t in enumerate(got)
    )
    expected = (
        None
        if expected_float64 is None
        else [t for t in flatten(expected_float64) if isinstance(t, torch.Tensor)]
    )
    with quiet():
        try:
            reference, comparison = _compared(model, case, outputs, expected)
        except _HOOK_ERRORS as error:
            reference, comparison = _compared(
                _by_sensitivity(model, error), case, outputs, expected
            )
    loaded = tolerances if isinstance(tolerances, Tolerances) else _tolerances.load(tolerances)
    rule = loaded.rule(model.name, dtype, family=model.family, backend=backend)
    policy = loaded.policy(backend, operator=model.name, dtype=dtype)
    judgment, evidence = judge(comparison, None, rule, policy), None
    if judgment.verdict.fails:
        with quiet():
            evidence = Evidence(
                judgment.verdict.value,
                cause=cause_of(reference, Outcome(OutcomeStatus.OK, outputs), judgment),
            )
        judgment = reconsider(judgment, evidence, policy)
    numbers = MappingProxyType({k: v for k, v in judgment.metrics.items() if not math.isnan(v)})
    return Result(
        case, backend, "forward", judgment.verdict, judgment.explanation, numbers, model.family,
        judgment.worst, judgment.output,
        _shapes(reference), comparison, reference.materials.sha256, evidence,
    )  # fmt: skip


def _compared(
    model: Operator,
    case: Case,
    outputs: tuple[Output, ...],
    expected: Sequence[torch.Tensor] | None,
) -> tuple[Reference, Comparison]:
    reference = Reference(model, prepare(case), "forward")
    if expected is not None:
        _replace_reference(reference, expected)
    return reference, _compare(Outcome(OutcomeStatus.OK, outputs), reference)


def _by_sensitivity(model: Operator, error: Exception) -> Operator:
    """The operator with an error model that reads no arguments, for calls that ``sample`` would not
    write.

    Raises UsageError for operators whose results are meaningless unless observed through their
    arguments.
    """
    if model.observe is not None or model.alternatives is not None:
        text = f"{type(error).__name__}: {str(error)[:100]}"
        raise UsageError(
            f"{model.name}: its arguments are not as the harness writes them ({text}); give them "
            "by position"
        ) from error
    return replace(model, error=_GENERIC_ERROR, ranges=())


def _replace_reference(reference: Reference, expected: Sequence[torch.Tensor]) -> None:
    shapes = [list(o.tensor.shape) for o in reference.outcome.outputs if o.tensor is not None]
    if [list(t.shape) for t in expected] != shapes:
        raise UsageError(
            f"expected_float64 has shapes {[list(t.shape) for t in expected]}, the operator "
            f"gives {shapes}"
        )
    for t in expected:
        if t.layout != torch.strided:
            raise UsageError(f"expected_float64 is a {t.layout} tensor; give a dense one")
        if t.dtype in (torch.float32, torch.float16, torch.bfloat16, torch.complex64):
            raise UsageError(
                f"expected_float64 is {_dtypes.name_of(t.dtype)}; compute it in float64, or "
                f"leave it out"
            )
    outputs = tuple(
        Output(f"out/{i}", t.detach().cpu(), _dtypes.name_of(t.dtype))
        for i, t in enumerate(expected)
    )
    reference.outcome = Outcome(OutcomeStatus.OK, outputs)
    reference.outputs = reference.observed(outputs)
