"""Cases from Hypothesis: a reproducible batch per operator × dtype, and the smallest case with some
property.

The seed comes from (run seed, operator, dtype) and never from the backend, so that every backend
sees the same cases. Hypothesis is only the searcher: cases are collected first and executed by the
engine, each distinct one once.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import replace

import hypothesis
from hypothesis import Phase

from ..core.dtypes import PARTS, floats
from ..core.model import Case
from ..core.recipe import Literal, TensorRecipe, tensors
from ..operators.declare import Operator
from .gradients import with_cotangent_layouts, with_untracked_inputs
from .hypothesis_settings import hypothesis_alone, settings
from .memory_formats import with_channels_last
from .odd_options import with_odd_options
from .scalar_pairs import with_scalar_pair
from .strategies import cases
from .variations import with_variations


def seed_for(seed: int, operator: str, dtype: str) -> int:
    """The Hypothesis seed of one operator × dtype in a run."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{operator}/{dtype}".encode()).digest()[:8], "big")


def batch(operator: Operator, dtype: str, examples: int, seed: int = 0) -> list[Case]:
    """Up to ``examples`` distinct cases; the same for the same arguments and versions.

    Cases with mostly blank numbers are left out: they would be inconclusive.
    """
    if operator.cases is not None:
        return operator.cases(dtype, examples, seed)
    distinct: dict[str, Case] = {}
    similar: dict[str, Case] = {}

    @hypothesis.seed(seed_for(seed, operator.name, dtype))
    @settings(2 * examples + 8, Phase.generate)
    @hypothesis.given(cases(operator, dtype))
    def collect(case: Case) -> None:
        if _blank(case):
            return
        same = plan(case)
        if same in distinct:
            similar.setdefault(case.digest, case)
        else:
            distinct[same] = case
        if len(distinct) == examples:
            raise _EnoughDrawn

    with hypothesis_alone(), contextlib.suppress(_EnoughDrawn):
        collect()
    digests = {case.digest for case in distinct.values()}
    extra = (case for digest, case in similar.items() if digest not in digests)
    ordinary = [*distinct.values(), *extra][:examples]
    drawn = with_odd_options(operator, with_variations(operator, ordinary), ordinary)
    chosen = with_channels_last(operator, drawn)
    changed = [case for case in chosen if case not in drawn]
    paired = with_scalar_pair(operator, chosen, changed)
    return with_untracked_inputs(operator, with_cotangent_layouts(operator, paired))


def plan(case: Case) -> str:
    """The case without its positions in the bitstream: two cases with the same plan are similar,
    and as test data the second one is a repetition."""
    recipes = (*tensors(case.args), *tensors(case.kwargs))
    parts = [replace(t, stop=0, special=()) if isinstance(t, TensorRecipe) else t for t in recipes]
    scalars = [repr(a) for a in case.args if not list(tensors(a))]
    return repr((parts, scalars, [(k, v) for k, v in case.kwargs.items() if not list(tensors(v))]))


def _bytes(case: Case) -> int:
    return sum(
        len(t.data) for t in (*tensors(case.args), *tensors(case.kwargs)) if isinstance(t, Literal)
    )


def _blank(case: Case) -> bool:
    """Whether the case's numbers are uninformative: most of an operand is blank, or every operand
    is a single number, expanded."""
    generated = [
        t
        for t in (*tensors(case.args), *tensors(case.kwargs))
        if isinstance(t, TensorRecipe) and 0 not in t.base
    ]
    floating = [t for t in generated if floats(t.dtype)] or generated
    if not floating or any(t.special for t in floating):
        return False
    if any(
        2 * t.stop < (3 if t.dtype in PARTS else 1) * math.prod(t.base) for t in floating
    ):  # imaginary parts come first
        return True
    return all(
        math.prod(t.base) == 1 and any(step[0] == "expand" for step in t.view) for t in floating
    )


class _EnoughDrawn(BaseException):
    """Ends a search as an interrupt does. Hypothesis takes an exception for a failing example,
    runs it three times more and describes it, which took as long as drawing two cases."""


class _MatchFoundError(Exception):  # a signal to Hypothesis, never seen by a user
    pass


def smallest(
    operator: Operator,
    dtype: str,
    predicate: Callable[[Case], bool],
    *,
    examples: int = 100,
    seed: int = 0,
    seconds: float = 10.0,
) -> Case | None:
    """The smallest case for which ``predicate`` holds, as Hypothesis shrinks it; None when no
    example of the batch has it.

    ``predicate`` is called once per distinct case. After ``seconds`` the best case so far is
    returned. What is not drawn cannot be shrunk: there it is the smallest of the batch.
    """
    if operator.cases is not None:
        until = time.monotonic() + seconds
        candidates = sorted(
            operator.cases(dtype, examples, seed), key=lambda case: len(case.line) + _bytes(case)
        )
        return next(
            (case for case in candidates if time.monotonic() < until and predicate(case)), None
        )
    verdicts: dict[str, bool] = {}
    best: list[Case] = []
    until = time.monotonic() + seconds

    @hypothesis.seed(seed_for(seed, operator.name, dtype))
    @settings(2 * examples + 8, Phase.generate, Phase.shrink)
    @hypothesis.given(cases(operator, dtype))
    def search(case: Case) -> None:
        if case.digest not in verdicts:
            verdicts[case.digest] = time.monotonic() < until and predicate(case)
        if verdicts[case.digest]:
            best[:] = [case]
            raise _MatchFoundError

    with hypothesis_alone(), contextlib.suppress(_MatchFoundError, hypothesis.errors.Flaky):
        search()
    return best[0] if best else None
