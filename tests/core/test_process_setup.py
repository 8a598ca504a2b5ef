"""What makes processes of ours faster must not change how they behave."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from consistency.core import process_setup

PROGRAM = """
import gc
from consistency.core.process_setup import postpone_garbage
usual = gc.get_threshold()
postpone_garbage()
postpone_garbage()
assert gc.get_threshold()[0] > 10_000
import consistency.backends
assert gc.get_threshold() == usual, gc.get_threshold()
assert gc.isenabled()
assert gc.get_freeze_count() > 100_000, gc.get_freeze_count()
"""


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    usual = gc.get_threshold()
    yield
    gc.set_threshold(*usual)


def test_garbage_is_collected_as_usual_once_torch_is_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_changes_where_torch_is_loaded_already() -> None:
    import torch  # noqa: F401

    usual, frozen = gc.get_threshold(), gc.get_freeze_count()
    process_setup.postpone_garbage()
    process_setup.resume_garbage()
    assert (gc.get_threshold(), gc.get_freeze_count()) == (usual, frozen)
