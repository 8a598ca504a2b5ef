"""For the tests that a project already has: the marker ``consistency`` and the fixture
``assert_consistent``. A part of the pytest plugin; it imports torch only where a test uses one.

``@pytest.mark.consistency(backends=[…], rule=…, operator=…, directions=…)`` gives these arguments
to every ``assert_consistent`` in the test that does not name them itself. A test with backends
becomes one item per backend; that of a backend which is not available is skipped, with its reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from ..errors import UsageError, did_you_mean

MARKER = "consistency"
BACKEND = "consistency_backend"  # the name of the parameter that a marked test gets
_ARGUMENTS = ("backends", "rule", "operator", "directions")
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class OwnTests:
    """Registered in every process of a session. ``backends``: those of ``--backends``, for marked
    tests that name none; ``artifacts``: where failures are kept, None for nowhere."""

    def __init__(self, backends: list[str] | None, artifacts: Path | None) -> None:
        self._backends, self._artifacts = backends, artifacts

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        marker = arguments_of(metafunc.definition)
        if marker is None:
            return
        backends = marker.get("backends") or self._backends
        if not backends:
            return
        backends = [backends] if isinstance(backends, str) else list(backends)
        if BACKEND not in metafunc.fixturenames:
            metafunc.fixturenames.append(BACKEND)
        names = [b if isinstance(b, str) else getattr(b, "name", repr(b)) for b in backends]
        metafunc.parametrize(BACKEND, backends, ids=names)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        backend = _backend_of(item)
        if backend is None:
            return
        from .. import backends

        try:
            (resolved,) = backends.resolve_all([backend])
        except UsageError as error:
            pytest.fail(f"consistency: {error}", pytrace=False)
        reason = backends.availability(resolved)
        if reason:
            pytest.skip(f"{resolved.name} is not available: {reason}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        marker = arguments_of(item)
        if marker is None:
            return (yield)
        from ..api.marker_defaults import DEFAULTS

        backend = _backend_of(item)
        given = {name: value for name, value in marker.items() if value is not None}
        token = DEFAULTS.set(given | ({"backends": [backend]} if backend is not None else {}))
        try:
            return (yield)
        finally:
            DEFAULTS.reset(token)

    @pytest.fixture(name="assert_consistent")
    def assert_consistent_fixture(
        self, request: pytest.FixtureRequest
    ) -> Callable[..., tuple[Any, ...]]:
        """``consistency.assert_consistent`` with the arguments of the test's marker as defaults;
        with ``--consistency-artifacts`` it keeps what fails."""
        from ..api.checks import assert_consistent

        if self._artifacts is None:
            return assert_consistent
        name = "".join(c if c.isalnum() else "-" for c in request.node.name).strip("-")
        return functools.partial(_kept, assert_consistent, self._artifacts / name)

    @pytest.fixture(name=BACKEND)
    def backend_fixture(self) -> None:
        """The backend that a marked test runs on; None where it names none."""


def arguments_of(item: Any) -> Mapping[str, Any] | None:
    """The arguments of an item's markers, the closest first; None if it has none. A misspelled one
    is one line at collection."""
    markers = list(item.iter_markers(MARKER))
    if not markers:
        return None
    found: dict[str, Any] = {}
    for marker in reversed(markers):
        unknown = next((name for name in marker.kwargs if name not in _ARGUMENTS), None)
        if unknown is not None or marker.args:
            what = "its arguments have names" if unknown is None else f"it has no {unknown!r}"
            hint = did_you_mean(unknown or "", _ARGUMENTS)
            raise pytest.Collector.CollectError(
                f"{item.nodeid}: @pytest.mark.consistency: {what}{hint}; known: "
                f"{', '.join(_ARGUMENTS)}"
            )
        found |= marker.kwargs
    from ..api.checked_arguments import refuse_mistakes

    try:
        refuse_mistakes(found)
    except UsageError as error:
        raise pytest.Collector.CollectError(
            f"{item.nodeid}: @pytest.mark.consistency: {error}"
        ) from None
    return found


def _backend_of(item: pytest.Item) -> Any:
    parameters = getattr(getattr(item, "callspec", None), "params", _NOTHING)
    return parameters.get(BACKEND) if arguments_of(item) is not None else None


def _kept(
    assert_consistent: Callable[..., Any], folder: Path, fn: Any, *args: Any, **kwargs: Any
) -> Any:
    """The same, with failures kept in folders, which the message names."""
    __tracebackhide__ = True
    from ..api.checks import save
    from ..core.folders import unused_folder
    from ..errors import ConsistencyError, Divergence

    try:
        return assert_consistent(fn, *args, **kwargs)
    except Divergence as error:
        failure = error
    lines = [line for line in str(failure).splitlines() if not line.startswith("  keep: ")]
    for result in failure.results:
        place = unused_folder(folder)  # a failure of an earlier session stays what it was
        try:
            spec = failure.specs.get(result.backend)  # type: ignore[attr-defined]
            save(
                result,  # type: ignore[arg-type]
                place,
                spec=spec,
                fn=fn,
                reference=kwargs.get("reference"),
            )
            lines.append(f"  artifact: {place} (repro.py, issue.md)")
        except (ConsistencyError, OSError) as reason:
            lines.append(f"  artifact: {reason}")
    raise Divergence("\n".join(lines), failure.results, failure.specs) from None
