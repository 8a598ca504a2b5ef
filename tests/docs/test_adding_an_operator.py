"""docs/adding-an-operator.md, executed: what it shows works, and what it names exists."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import consistency
from consistency.backends.numpy import IMPLEMENTATIONS
from consistency.core.model import Result
from consistency.engine import case_health
from consistency.generate import search
from consistency.generate.materialize import prepare
from consistency.generate.strategies import Draw
from consistency.operators import declare, variants
from consistency.reference.certified.certificate import Certifier
from consistency.reference.certified.elementwise import node_of
from consistency.reference.certified.entries import ENTRIES, load
from consistency.reference.certified.nodes import evaluate
from tests.support.paths import ROOT

TEXT = (ROOT / "docs" / "adding-an-operator.md").read_text(encoding="utf-8")
FULL = "muladd"


@pytest.fixture(scope="module")
def page() -> Iterator[tuple[dict[str, Any], str]]:
    """The names that the page's code defines, and what it prints."""
    names: dict[str, Any] = {}
    printed = io.StringIO()
    load()
    try:
        with contextlib.redirect_stdout(printed):
            for code in re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE):
                exec(code, names)
        yield names, printed.getvalue()
    finally:
        IMPLEMENTATIONS.pop(FULL, None)
        ENTRIES.pop(FULL, None)


@pytest.fixture(scope="module")
def results(page: tuple[dict[str, Any], str]) -> list[Result]:
    return list(page[0]["run"].results)


@pytest.mark.nightly
def test_what_the_page_prints(page: tuple[dict[str, Any], str]) -> None:
    assert page[1] == f"{{'forgetful'}}\n0 ['{FULL}', '{FULL}.out', '{FULL}_']\n"


@pytest.mark.nightly
def test_the_short_operator_is_healthy(page: tuple[dict[str, Any], str]) -> None:
    operator: consistency.Operator = page[0]["WEIGHTED"]
    found = case_health.examine(operator, "float32", 60)
    assert found.good, found.invalid or found.reasons
    for dtype in operator.dtypes:
        run = consistency.run([operator], ["cpu"], [dtype], examples=20)
        assert not run.failures
        assert any(r.verdict.tested for r in run.results) or dtype == "float64"


def test_a_full_operator_touches_at_most_four_files() -> None:
    files = re.findall(r"^### \d\. `([^`]+)`", TEXT, re.MULTILINE)
    assert 1 <= len(set(files)) <= 4
    assert all((ROOT / file).is_file() for file in files)


REAL = ("float32", "float16", "bfloat16")
FORMS = [
    *((form, dtype) for form in ("", "_") for dtype in (*REAL, "complex64")),
    *((".out", dtype) for dtype in REAL),  # which has no gradients, and no complex dtypes
]


@pytest.mark.nightly
@pytest.mark.parametrize(("form", "dtype"), FORMS)
def test_every_variant_is_drawn_and_judged(results: list[Result], form: str, dtype: str) -> None:
    for direction in ("forward", "backward") if form != ".out" else ("forward",):
        key = (FULL + form, dtype, direction, "cpu")
        judged = [r for r in results if (r.operator, r.dtype, r.direction, r.backend) == key]
        assert sum(r.verdict.tested for r in judged) >= 8


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("operator", "dtype"),
    [(FULL, "float32"), (FULL, "float16"), (FULL, "complex64"), (f"{FULL}.out", "float32")],
)
def test_numpy_is_judged(results: list[Result], operator: str, dtype: str) -> None:
    judged = [r for r in results if (r.operator, r.dtype, r.backend) == (operator, dtype, "numpy")]
    assert sum(r.verdict.tested and r.direction == "forward" for r in judged) >= 8


@pytest.mark.nightly
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_the_oracle_proves_its_elements(
    page: tuple[dict[str, Any], str], direction: str, dtype: str
) -> None:
    operator = variants(page[0]["MULADD"])[0]
    proved = []
    for case in search.batch(operator, dtype, 10):
        if prepare(case).build("float64").args[0].numel():
            proved += Certifier(operator, prepare(case), direction).prove(0, [0])
    assert sum(certificate is not None for certificate in proved) > 5


@pytest.mark.nightly
def test_the_oracle_entry_of_the_page_is_right(page: tuple[dict[str, Any], str]) -> None:
    node = ENTRIES[FULL](node_of(0.75), node_of(2.0), node_of(-1.0))
    assert [float(value) for value in evaluate(node, np.asarray([0]))] == [0.5]


def test_what_it_names_exists() -> None:
    for name in re.findall(r"`([A-Z]{3,})`", TEXT):
        assert hasattr(declare, name) or name == "FAMILY_MODULES", name
    for name in set(re.findall(r"`d\.(\w+)", TEXT)):
        assert hasattr(Draw, name), name
    for name in set(re.findall(r"^\| `(\w+)=", TEXT, re.MULTILINE)):
        assert name in declare.Operator.__dataclass_fields__, name
    for path in re.findall(r"\]\((\w[\w.-]*\.md)\)", TEXT):
        assert (ROOT / "docs" / path).is_file() or path == "coverage.md", path
