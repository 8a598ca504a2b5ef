"""The same recipe gives the same bits: for ever, on any processor, in any version of torch and
NumPy."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from consistency.core import dtypes
from tests.support import golden
from tests.support.paths import ROOT, SUPPORT

GOLDEN: dict[str, str] = json.loads((SUPPORT / "golden.json").read_text(encoding="utf-8"))
OTHER = os.environ.get("CONSISTENCY_OTHER_PYTHON", "")


@pytest.fixture(scope="module")
def here() -> dict[str, str]:
    return golden.digests()


def digests_of_interpreter(python: str, **environment: str) -> dict[str, str]:
    """The hashes that another process comes to."""
    found: dict[str, str] = json.loads(
        subprocess.run(
            [python, "-W", "error", str(SUPPORT / "golden.py")],
            env=os.environ | {"PYTHONPATH": str(ROOT)} | environment, capture_output=True,
            check=True, text=True, timeout=60,
        ).stdout
    )  # fmt: skip
    return found


@pytest.mark.parametrize("group", [*dtypes.ALL, "view"])
def test_the_bits_have_not_changed(group: str, here: dict[str, str]) -> None:
    wanted = {name: digest for name, digest in GOLDEN.items() if name.split()[0] == group}
    assert wanted
    assert {name: here[name] for name in wanted} == wanted


def test_every_value_class_and_dtype_is_on_record(here: dict[str, str]) -> None:
    assert here.keys() == GOLDEN.keys()


def test_the_same_without_vector_instructions(here: dict[str, str]) -> None:
    dispatched = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    assert (
        digests_of_interpreter(
            sys.executable,
            ATEN_CPU_CAPABILITY="default",
            NPY_DISABLE_CPU_FEATURES=" ".join(dispatched),
        )
        == here
    )


@pytest.mark.skipif(not OTHER, reason="CONSISTENCY_OTHER_PYTHON names no other interpreter")
def test_the_same_in_another_interpreter(here: dict[str, str]) -> None:
    assert digests_of_interpreter(OTHER) == here
