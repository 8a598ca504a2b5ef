"""The sample inputs of one entry of PyTorch's operator database as cases.

Samples become literal tensors, so that such a case is as much a recipe as any other. Which numbers
they hold is torch's generator's choice: the same seed gives the same cases on one platform and
version of torch, not everywhere.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import random
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ... import operators
from ...core import dtypes
from ...core.model import Case
from ...core.recipe import Arg, Literal, tensors
from ...core.trees import flatten
from ...errors import ConsistencyError, Untestable
from ...operators.aten_calls import AtenCallRecorder
from ...operators.catalog.aten import is_uninitialized
from ..materialize import KEPT_BEFORE_VIEW, from_python, literal, prepare
from ..search import seed_for

NAME = "opinfo"
MAX_BYTES = 1 << 20  # of a case's tensors: a bundle holds thousands of cases
MAX_SAMPLES = 400  # of one kind that are looked at, unless more examples are asked for
_DTYPE_DEPENDENT = ("hash_tensor", "linalg.matrix_rank")


def sample_cases(entry: Any, dtype: str, examples: int, seed: int) -> list[Case]:
    """Up to ``examples`` cases, evenly chosen among the samples of both kinds. Raises
    Untestable."""
    name = f"{entry.name}/{entry.variant_test_name}" if entry.variant_test_name else entry.name
    declared = operators.registry().get(entry.name)
    if declared is None and (is_uninitialized(entry.name) or entry.name.startswith("resize_")):
        raise Untestable("its result is uninitialized memory")
    if declared is None and entry.name in _DTYPE_DEPENDENT:
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
    cases: dict[str, Case] = {}
    for number, kind in enumerate(kinds):
        share = examples - len(cases) if number == len(kinds) - 1 else (examples + 1) // 2
        with _seeded(seed_for(seed, f"{kind}/{name}", dtype)):
            samples = _samples(entry, kind, dtype, max(MAX_SAMPLES, examples), refused)
        usable = _evenly(samples, share, entry, dtype, source, refused)
        cases |= {case.digest: case for case in usable}
    if not cases:
        raise Untestable(
            refused.most_common(1)[0][0]
            if refused
            else f"PyTorch's database has no {dtype} sample of it"
        )
    return list(cases.values())[:examples]


def _samples(entry: Any, kind: str, dtype: str, limit: int, refused: Counter[str]) -> list[Any]:
    requested = dtypes.TORCH[dtype]
    tracked = requested in entry.supported_backward_dtypes("cpu") and bool(entry.supports_autograd)
    try:
        return list(
            itertools.islice(
                getattr(entry, kind)("cpu", requested, requires_grad=tracked, **_options()), limit
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
    """``count`` cases from evenly spaced samples, or from neighbors of unusable ones."""
    if count <= 0 or not samples:
        return []
    step = max(len(samples) / count, 1.0)
    chosen = dict.fromkeys(int(i * step) for i in range(min(count, len(samples))))
    order = [*chosen, *(i for i in range(len(samples)) if i not in chosen)]
    cases: dict[str, Case] = {}
    for position in order:
        if len(cases) == count:
            break
        try:
            case = _case(samples[position], entry.name, dtype, source, position)
            _check_determined(entry, case)
        except (ConsistencyError, TypeError, ValueError, RuntimeError) as error:
            refused[str(error).splitlines()[0][:160] if str(error) else type(error).__name__] += 1
            continue
        cases[case.digest] = case
    return list(cases.values())


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
    recipes = [*tensors(case.args), *tensors(case.kwargs)]
    if name not in operators.registry() and not any(t.dtype in dtypes.FORMATS for t in recipes):
        raise Untestable(
            "nobody declared it, and without a floating tensor its sensitivity cannot be measured"
        )
    literal_bytes = sum(len(t.data) for t in recipes if isinstance(t, Literal))
    if literal_bytes > MAX_BYTES:
        raise Untestable(f"its samples are larger than {MAX_BYTES >> 20} MiB")
    if len(case.line) > MAX_BYTES:
        raise Untestable("its arguments are too long for a case")
    return case


def _argument(value: Any) -> Arg:
    if isinstance(value, torch.Tensor):
        stored = literal(value, before=KEPT_BEFORE_VIEW)
        return (
            replace(stored, leaf=value.requires_grad)
            if value.dtype.is_floating_point or value.dtype.is_complex
            else stored
        )
    if isinstance(value, (list, tuple)):
        items = [_argument(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return from_python(value)


def _check_determined(entry: Any, case: Case) -> None:
    """Raises Untestable for a call with a random result, according to the dispatcher and two
    seeds."""
    materials, results = prepare(case), []
    for seed in (1, 2):
        with _seeded(seed), AtenCallRecorder(seed) as reached, warnings.catch_warnings():
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
    states: tuple[Any, Any, Any] = (
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
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
