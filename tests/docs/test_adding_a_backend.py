"""docs/adding-a-backend.md and docs/adding-a-fault.md, executed: what they show works."""

from __future__ import annotations

import re
from typing import Any

import consistency
from tests.support.catalog import faults, memory, model
from tests.support.paths import ROOT


def executed(page: str) -> dict[str, Any]:
    """The names that the Python blocks of a page define."""
    names: dict[str, Any] = {}
    for code in re.findall(
        r"^```python\n(.*?)^```$",
        (ROOT / "docs" / page).read_text("utf-8"),
        re.DOTALL | re.MULTILINE,
    ):
        exec(code, names)
    return names


def test_the_backends_of_the_page() -> None:
    names = executed("adding-a-backend.md")
    run = consistency.run(
        ["lgamma", "nn.functional.relu"], [names["Mine"]()], ["float32"], examples=2
    )
    verdicts = {result.operator: result.verdict.value for result in run.results}
    assert verdicts["lgamma"] == "unsupported"
    assert not run.failures
    assert names["Gaudi"]().device == "hpu:0"


def test_what_a_backend_may_say_exists() -> None:
    text = (ROOT / "docs" / "adding-a-backend.md").read_text(encoding="utf-8")
    said = re.findall(r"^\| `(\w+)", text, re.MULTILINE)
    assert len(said) == 9
    assert all(hasattr(consistency.Backend, name) for name in said)


def test_the_fault_of_the_page_is_in_the_catalog() -> None:
    names = executed("adding-a-fault.md")
    assert names["offset_ignored"].__code__.co_code == memory.offset_ignored.__code__.co_code
    assert any(fault.what == "offset ignored" for fault in faults.FAULTS)
    assert "offset-ignored" in model.CAUSES
