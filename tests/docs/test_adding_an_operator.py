"""docs/adding-an-operator.md, executed: what it shows works, and what it names exists."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

import consistency
from consistency.engine import case_health
from consistency.generate.strategies import Draw
from consistency.operators import declare
from tests.support.paths import ROOT

TEXT = (ROOT / "docs" / "adding-an-operator.md").read_text(encoding="utf-8")


def executed() -> tuple[dict[str, Any], str]:
    names: dict[str, Any] = {}
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        for code in re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE):
            exec(code, names)
    return names, said.getvalue()


def test_the_page_works() -> None:
    names, said = executed()
    assert said == "{'forgetful'}\n"
    operator: consistency.Operator = names["WEIGHTED"]
    found = case_health.examine(operator, "float32", 60)
    assert found.good, found.invalid or found.reasons
    for dtype in operator.dtypes:
        run = consistency.run([operator], ["cpu"], [dtype], examples=20)
        assert not run.failures
        assert any(r.verdict.tested for r in run.results) or dtype == "float64"


def test_what_it_names_exists() -> None:
    for name in re.findall(r"`([A-Z]{3,})`", TEXT):
        assert hasattr(declare, name) or name == "FAMILY_MODULES", name
    for name in set(re.findall(r"`d\.(\w+)", TEXT)):
        assert hasattr(Draw, name), name
    for path in re.findall(r"\]\((\w[\w.-]*\.md)\)", TEXT):
        assert (ROOT / "docs" / path).is_file() or path == "coverage.md", path
