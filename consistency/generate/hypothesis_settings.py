"""How this package uses Hypothesis: as a searcher for cases, not as a test runner.

Its settings, a generator of random choices without what tests need and cases do not, and the
isolation of its inputs from the program around it.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase

GENERATOR = "consistency"  # the name of the backend of Hypothesis below

_QUIET: dict[str, Any] = {
    # Explicit, because under CI=true Hypothesis silently selects a profile of its own.
    "database": None, "deadline": None, "derandomize": False, "report_multiple_bugs": False,
    "suppress_health_check": list(HealthCheck), "print_blob": False,
}  # fmt: skip


def settings(examples: int, *phases: Phase) -> Callable[[Callable[..., None]], Any]:
    """A decorator for a test that Hypothesis calls with at most so many examples."""
    more: dict[str, Any] = {"backend": GENERATOR} if _generator() else {}
    return hypothesis.settings(max_examples=examples, phases=phases, **_QUIET, **more)


@functools.cache
def _generator() -> bool:
    """Register a backend of Hypothesis that makes every choice as its own does, each time anew;
    whether this version of Hypothesis can have one.

    Hypothesis's own first tries the simplest choices, keeps early examples short, and makes half of
    the others by copying parts of earlier ones: that finds failures of programs, but as test data
    these are repetitions, and a case costs 2.3 times as much. Examples that fail are made smaller
    in either case as always.
    """
    from hypothesis.internal.conjecture import providers

    registered: dict[str, Any] | None = getattr(providers, "AVAILABLE_PROVIDERS", None)
    own = getattr(providers, "HypothesisProvider", None)
    if registered is None or own is None:
        return False
    registered.setdefault(GENERATOR, type("CaseGenerator", (own,), {}))
    return True


@contextlib.contextmanager
def hypothesis_alone() -> Iterator[None]:
    """Keep Hypothesis's remarks about nested or slow use from becoming errors, and imports from
    changing inputs."""
    with warnings.catch_warnings(), no_local_constants():
        warnings.simplefilter("ignore", hypothesis.errors.HypothesisWarning)
        yield


_constants_cache: Any = None  # Hypothesis's own belongs to the tests of the program around us


@contextlib.contextmanager
def no_local_constants() -> Iterator[None]:
    """Prevent Hypothesis from drawing constants of the surrounding source code.

    Since 6.131 it collects them from every local module imported so far: the same seed would give
    other cases after a lazy import, with another user's backend, in a worker, or in an installed
    copy. There is no setting for it.
    """
    global _constants_cache
    from hypothesis.internal.conjecture import providers as _providers

    providers: Any = _providers
    if not all(
        hasattr(providers, name)
        for name in ("_get_local_constants", "CONSTANTS_CACHE", "Constants", "LRUCache")
    ):
        yield
        return
    before = providers._get_local_constants, providers.CONSTANTS_CACHE
    if _constants_cache is None:
        _constants_cache = providers.LRUCache(1024)
    providers._get_local_constants, providers.CONSTANTS_CACHE = (
        providers.Constants,
        _constants_cache,
    )
    try:
        yield
    finally:
        providers._get_local_constants, providers.CONSTANTS_CACHE = before
