"""The second source of cases: the sample inputs of PyTorch's own operator database, for arguments
nobody here thought of.

The database (``torch.testing._internal``) is private, so nothing here is taken for granted: what
cannot be had costs its own operator and says why. Samples become literal tensors, so that such a
case is as much a recipe as any other. Which numbers they hold is torch's generator's choice: the
same seed gives the same cases on one platform and version of torch, not everywhere.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import random
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ... import operators
from ...core import dtypes
from ...core.model import Case
from ...core.recipe import Arg, Literal, tensors
from ...core.trees import flatten
from ...errors import ConsistencyError, Untestable, UsageError
from ...operators.catalog.aten import is_uninitialized
from ...operators.declare import EXACT, NORMWISE, ErrorModel, Operator, call
from ...operators.reached import Reached
from ..materialize import from_python, literal, prepare
from ..search import seed_for

NAME = "opinfo"
# the source of a case that called a function of a user's own, which nobody else can call
YOURS = "yours"
GENERIC = (
    "opinfo: generic model"  # the family of what we do not declare: its name stands in every table
)
MOST_BYTES = 1 << 20  # of a case's tensors: a bundle holds thousands of cases
LOOKED_AT = 400  # samples of one kind, unless more examples are asked for
BEFORE = 64  # elements that are kept of what lies before a view
_OF_THE_DECLARATION = (
    "family",
    "error",
    "traits",
    "observe",
    "observe_gradients",
    "alternatives",
    "ranges",
)
_OF_THE_FORMAT = ("nextafter", "hash_tensor", "linalg.matrix_rank")
_FROZEN = "__allow_nonbracketed_mutation_flag"
_PACKAGES = {"expecttest": "expecttest", "packaging": "packaging", "hypothesis": "hypothesis"}


def longest(
    args: tuple[Any, ...], kwargs: dict[str, Any], outputs: tuple[torch.Tensor, ...]
) -> float:
    """n for an operator nothing is known of: the longest dimension of an argument."""
    found = [a for a in (*flatten(list(args)), *flatten(kwargs)) if isinstance(a, torch.Tensor)]
    return float(max((max(t.shape, default=1) for t in found), default=1))


# Whether intermediates are rounded to the half format is not known either.
_BY_SENSITIVITY = replace(NORMWISE, terms=longest, wide_accumulation=False)


@functools.cache
def database() -> tuple[Any, ...]:
    """The OpInfo entries of the installed torch. Raises UsageError with the remedy where they
    cannot be imported."""
    arguments, sys.argv = (
        sys.argv,
        sys.argv[:1],
    )  # the private modules parse the command line of whoever imports them
    before = torch.get_default_dtype(), torch.get_rng_state(), bool(torch.backends.flags_frozen())  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        missing = _PACKAGES.get(str(error.name or ""))
        remedy = f"pip install {missing}" if missing else "leave --source out"
        raise UsageError(
            f"PyTorch's operator database cannot be imported: {error}; {remedy}"
        ) from None
    except (Exception, SystemExit) as error:  # private code of any version
        text = f"{type(error).__name__}: {str(error)[:120]}"
        raise UsageError(
            f"PyTorch's operator database cannot be imported ({text}); leave --source out"
        ) from None
    finally:
        sys.argv = arguments
        torch.set_default_dtype(before[0])
        torch.set_rng_state(before[1])
        # The import forbids to set the switches of oneDNN and its like, which our backends do;
        # there is no function to allow it.
        torch.backends.flags_frozen.__globals__[_FROZEN] = not before[2]
    return tuple(op_db)


def select(patterns: Iterable[str | Operator] | None = None) -> list[Operator]:
    """The database's operators by name, glob or family, every variant of each. Raises
    UsageError."""
    entries: dict[str, list[Any]] = {}
    for entry in database():
        entries.setdefault(entry.name, []).append(entry)
    first = {name: _plain(variants[0]) for name, variants in entries.items()}
    chosen = operators.select(patterns, first)
    return [
        found
        for o in chosen
        for found in ([_operator(e) for e in entries[o.name]] if o.name in entries else [o])
    ]


def variant(operator: Operator) -> str:
    """Which of the database's entries of that name this is; empty for its first, and for operators
    from elsewhere."""
    made = operator.cases
    return (
        str(made.args[0].variant_test_name)
        if isinstance(made, functools.partial) and made.func is _cases
        else ""
    )


def operator_of(case: Case) -> Operator:
    """The operator that ``case`` calls: the registry's, the database's, a function that it names,
    or aten's. Raises UsageError."""
    if not case.source:
        return operators.get(case.operator)
    from . import aten, torch_functions

    kind, _, variant = case.source.partition("/")
    if kind == torch_functions.NAME:
        return torch_functions.operator_of(case)
    if kind == aten.NAME:
        return aten.operator_of(case)
    if kind == YOURS:
        raise UsageError(
            f"{variant!r:.60} is a function of somebody's own: its tensors are here, and "
            f"nobody "
            f"else can call it"
        )
    if kind != NAME:
        raise UsageError(
            f"unknown source {kind!r:.40} of a case; known: {NAME}, {torch_functions.NAME}, "
            f"{aten.NAME}"
        )
    for entry in database():
        if entry.name == case.operator and entry.variant_test_name == variant:
            return _operator(entry)
    name = f"{case.operator} {variant}".strip()
    raise UsageError(f"torch {torch.__version__} has no {name!r} in its operator database")


def generically(operator: Operator) -> Operator:
    """The operator judged by its sensitivity to its inputs, for calls that its declaration does not
    understand.

    Raises Untestable for operators whose results mean nothing unless they are observed through
    their arguments.
    """
    if (
        operator.observe is not None
        or operator.observe_gradients is not None
        or operator.alternatives is not None
    ):
        raise Untestable("its declaration does not know arguments that are written like this")
    return replace(operator, error=_BY_SENSITIVITY, ranges=())


def _plain(entry: Any) -> Operator:
    """What is known without looking at a sample: our declaration with the database's callable, or a
    generic one."""
    declared = operators.registry().get(entry.name)
    offered = {dtypes.name_of(dtype) for dtype in entry.supported_dtypes("cpu")}
    source = Operator(
        name=entry.name, family=GENERIC, sample=lambda d: call(), function=entry.op,
        error=_BY_SENSITIVITY,
        dtypes=tuple(name for name in dtypes.ALL if name in offered),
        differentiable=bool(entry.supports_autograd),
        cases=functools.partial(_cases, entry),
    )  # fmt: skip
    if declared is None:
        return source
    known = {name: getattr(declared, name) for name in _OF_THE_DECLARATION}
    # Of other dtypes our declaration says nothing.
    known["dtypes"] = tuple(name for name in source.dtypes if name in declared.dtypes)
    return replace(
        source, **known, differentiable=source.differentiable and declared.differentiable
    )


@functools.cache
def _by_name(name: str, variant: str) -> Operator:
    entry = next(e for e in database() if (e.name, e.variant_test_name) == (name, variant))
    operator = _plain(entry)
    if operator.family == GENERIC and _only_moves(entry, operator):
        return replace(operator, error=ErrorModel("exact", backward=EXACT.backward))
    return operator


def _operator(entry: Any) -> Operator:
    return _by_name(entry.name, entry.variant_test_name)


def _only_moves(entry: Any, operator: Operator) -> bool:
    """Whether every number of every result stands among the inputs: then nothing is computed, and
    nothing may differ."""
    seen = 0
    with contextlib.suppress(Exception):
        for case in _cases(entry, "float32", 8, 0):
            arguments = prepare(case).build("float64")
            given = torch.cat([t.reshape(-1).double() for t in arguments.tensors])
            for result in flatten(operator(*arguments.args, **arguments.kwargs)):
                if not isinstance(result, torch.Tensor) or not result.numel():
                    continue
                if result.dtype != torch.float64 or not bool(torch.isin(result, given).all()):
                    return False
                seen += result.numel()
        return seen > 0
    return False


def _cases(entry: Any, dtype: str, examples: int, seed: int) -> list[Case]:
    """Up to ``examples`` cases, evenly chosen among the samples of both kinds. Raises
    Untestable."""
    name = f"{entry.name}/{entry.variant_test_name}" if entry.variant_test_name else entry.name
    declared = operators.registry().get(entry.name)
    if declared is None and (is_uninitialized(entry.name) or entry.name.startswith("resize_")):
        raise Untestable("its result is uninitialised memory")
    if declared is None and entry.name in _OF_THE_FORMAT:
        raise Untestable("its answer depends on the number format, so float64 cannot tell")
    if declared is not None and "random" in declared.traits:
        raise Untestable(
            "its result is random; our own draws of it are tested by what its distribution allows"
        )
    if getattr(entry, "has_nondeterministic_output", False):
        raise Untestable("PyTorch's database says that its results are not deterministic")
    source = NAME + (f"/{entry.variant_test_name}" if entry.variant_test_name else "")
    kinds = ["sample_inputs"] + (
        ["reference_inputs"] if getattr(entry, "reference_inputs_func", None) is not None else []
    )
    refused: Counter[str] = Counter()
    found: dict[str, Case] = {}
    for turn, kind in enumerate(kinds):
        share = examples - len(found) if turn == len(kinds) - 1 else (examples + 1) // 2
        with _seeded(seed_for(seed, f"{kind}/{name}", dtype)):
            samples = _samples(entry, kind, dtype, max(LOOKED_AT, examples), refused)
        usable = _evenly(samples, share, entry, dtype, source, refused)
        found |= {case.digest: case for case in usable}
    if not found:
        raise Untestable(
            refused.most_common(1)[0][0]
            if refused
            else f"PyTorch's database has no {dtype} sample of it"
        )
    return list(found.values())[:examples]


def _samples(entry: Any, kind: str, dtype: str, most: int, refused: Counter[str]) -> list[Any]:
    wanted = dtypes.TORCH[dtype]
    tracked = wanted in entry.supported_backward_dtypes("cpu") and bool(entry.supports_autograd)
    try:
        return list(
            itertools.islice(
                getattr(entry, kind)("cpu", wanted, requires_grad=tracked, **_options()), most
            )
        )
    except (Exception, SystemExit) as error:
        refused[
            (
                f"PyTorch's {kind} of it cannot be made ({type(error).__name__}: "
                f"{str(error).splitlines()[0][:120]})"
            )
        ] += 1
        return []


@functools.cache
def _options() -> dict[str, bool]:
    """``set_seed=False``, where this torch would otherwise begin three quarters of its samples with
    the same number."""
    from torch.testing._internal.common_utils import TrackedInputIter

    return (
        {"set_seed": False}
        if "set_seed" in inspect.signature(TrackedInputIter.__init__).parameters
        else {}
    )


def _evenly(
    samples: Sequence[Any], count: int, entry: Any, dtype: str, source: str, refused: Counter[str]
) -> list[Case]:
    """``count`` cases from evenly spaced samples; where one cannot be used, from its neighbours."""
    if count <= 0 or not samples:
        return []
    step = max(len(samples) / count, 1.0)
    chosen = dict.fromkeys(int(i * step) for i in range(min(count, len(samples))))
    order = [*chosen, *(i for i in range(len(samples)) if i not in chosen)]
    found: dict[str, Case] = {}
    for position in order:
        if len(found) == count:
            break
        try:
            case = _case(samples[position], entry.name, dtype, source, position)
            _look(entry, case)
        except (ConsistencyError, TypeError, ValueError, RuntimeError) as error:
            refused[str(error).splitlines()[0][:160] if str(error) else type(error).__name__] += 1
            continue
        found[case.digest] = case
    return list(found.values())


def _case(sample: Any, name: str, dtype: str, source: str, position: int) -> Case:
    # The device is the backend's to say, and every tensor here is strided.
    kwargs = {
        key: value
        for key, value in sample.kwargs.items()
        if key != "device" and value is not torch.strided
    }
    args = tuple(_argument(value) for value in (sample.input, *sample.args))
    case = Case(
        name,
        dtype,
        args,
        {k: _argument(v) for k, v in kwargs.items()},
        (1 << 20) + 97 * position,
        source,
    )
    given = [*tensors(case.args), *tensors(case.kwargs)]
    if name not in operators.registry() and not any(t.dtype in dtypes.FORMATS for t in given):
        raise Untestable(
            "nobody declared it, and without a floating tensor its sensitivity cannot be measured"
        )
    held = sum(len(t.data) for t in given if isinstance(t, Literal))
    if held > MOST_BYTES:
        raise Untestable(f"its samples are larger than {MOST_BYTES >> 20} MiB")
    if len(case.line) > MOST_BYTES:
        raise Untestable("its arguments are too long for a case")
    return case


def _argument(value: Any) -> Arg:
    if isinstance(value, torch.Tensor):
        kept = literal(value, before=BEFORE)
        return (
            replace(kept, leaf=value.requires_grad)
            if value.dtype.is_floating_point or value.dtype.is_complex
            else kept
        )
    if isinstance(value, (list, tuple)):
        made = [_argument(item) for item in value]
        return made if isinstance(value, list) else tuple(made)
    return from_python(value)


def _look(entry: Any, case: Case) -> None:
    """Raises Untestable for a call whose result is random: the dispatcher says it may be, and two
    seeds show that it is."""
    materials, results = prepare(case), []
    for seed in (1, 2):
        with _seeded(seed), Reached(seed) as reached, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                arguments = materials.build()
                results.append(
                    [
                        r
                        for r in flatten(entry.op(*arguments.args, **arguments.kwargs))
                        if isinstance(r, torch.Tensor)
                    ]
                )
            except Exception:  # whatever that means is for the judge to say
                return
        if arguments.changed(materials):
            raise Untestable(
                "it writes to an argument, and only our own declarations know which ones may be"
            )
        if any(result.layout != torch.strided for result in results[-1]):
            raise Untestable("its result is sparse")
        if not reached.random:
            return
    pairs = list(zip(*results, strict=False))
    if any(a.shape != b.shape or not torch.equal(a, b) for a, b in pairs) or not any(
        a.numel() for a, _ in pairs
    ):
        raise Untestable(
            f"its result is random ({sorted(reached.random)[0]} is tagged nondeterministic_seeded)"
        )


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Every generator that the private sample functions use, in a known state, and afterwards as it
    was."""
    before: tuple[Any, Any, Any] = (
        random.getstate(),
        np.random.get_state(legacy=False),
        torch.get_rng_state(),
    )
    random.seed(seed)
    np.random.seed(seed % (1 << 32))
    torch.manual_seed(seed % (1 << 63))
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])
