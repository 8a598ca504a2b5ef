"""Settings of the project's own tests: explicit Hypothesis profiles and one torch thread, so that
runs repeat themselves."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import sys
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

from consistency.core.process_setup import freeze_garbage
from consistency.generate import search
from consistency.generate.hypothesis_settings import no_local_constants

# Registered by name, because under CI=true Hypothesis would silently choose a profile of its own.
hypothesis.settings.register_profile(
    "pull-request", deadline=None, derandomize=True, database=None, max_examples=40
)
hypothesis.settings.register_profile("nightly", deadline=None, derandomize=False, max_examples=1000)
PROFILE = os.environ.get("CONSISTENCY_HYPOTHESIS_PROFILE", "pull-request")
hypothesis.settings.load_profile(PROFILE)

pytest_plugins = ["pytester", "tests.support.snapshots"]


def pytest_configure(config: pytest.Config) -> None:
    """A test that ends its process ends the run, too: after a restart pytest-xdist may wait for
    ever (1 test of 10,000 left), which says less."""
    if getattr(config.option, "maxworkerrestart", "") is None:
        config.option.maxworkerrestart = "0"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Examples of a pull request do not depend on which test modules this process imported before
    (pytest-xdist deals them out)."""
    harvests = PROFILE != "pull-request" or item.get_closest_marker("harvests") is not None
    with contextlib.nullcontext() if harvests else no_local_constants():
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """``one_in(n)``: a pull request runs one of n of a test's parameters, but at least one; the
    nightly runs the rest. Those with the smallest checksums are chosen, so that most of the choice
    stays when others are added, and tests of the same parameters share what they computed."""
    alike: dict[str, list[tuple[int, pytest.Item]]] = {}
    for item in items:
        if item.get_closest_marker("one_in") is not None:
            test, _, parameter = item.nodeid.partition("[")
            alike.setdefault(test, []).append((zlib.crc32(parameter.encode()), item))
    for parameters in alike.values():
        parameters.sort(key=lambda pair: pair[0])
        marker = parameters[0][1].get_closest_marker("one_in")
        assert marker is not None
        for _, item in parameters[math.ceil(len(parameters) / marker.args[0]) :]:
            item.add_marker(pytest.mark.nightly)


def pytest_collection_finish() -> None:
    """What torch, the collected tests and their parameters consist of stays until the end: garbage
    collections that walk over it took a tenth of the processor time of the suite."""
    freeze_garbage()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``-n``, the tests of a file run in one process: they share what they computed (played
    catalogs, drawn cases, fixtures of modules), which two processes would compute twice."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


def _shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this run that the workers of pytest-xdist have in common."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(autouse=True, scope="session")
def _nothing_of_the_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No cache but our own, in this process and those that it begins, and no probes that a test
    does not ask for."""
    with pytest.MonkeyPatch.context() as patch:
        if sys.dont_write_bytecode:
            # Otherwise each of some hundred processes would compile this project again; nothing is
            # written beside its sources.
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", str(_shared(tmp_path_factory) / "bytecode"))
        patch.setenv("CONSISTENCY_CACHE", str(_shared(tmp_path_factory) / "cache"))
        patch.setenv("CONSISTENCY_PROBES", "off")
        yield


@pytest.fixture(scope="module")
def drawn_once() -> Iterator[None]:
    """The tests of a module share the cases that they draw alike: searching for them takes longer
    than judging them."""
    kept = functools.cache(search.batch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "batch", lambda *args, **more: list(kept(*args, **more)))
        yield
