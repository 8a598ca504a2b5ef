"""The table of outcomes, ``outcomes.json``: after how many cases each reported bug was noticed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .model import Bug

FILE = Path(__file__).with_name("outcomes.json")


@dataclass
class Outcomes:
    """``rows``, by issue: ``within`` how many cases per operator × dtype the bug was noticed (None:
    never), on which ``case`` of which operator × dtype (``on``), the ``cause`` that was named, how
    many of the ``drawn`` cases the defect ``touched`` and which verdicts ``forgave`` it, and
    whether it fails when ``handed`` the report's input (None where there is no small one);
    ``versions``: what they were drawn with."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def noticed(self, bug: Bug) -> int | None:
        """The number of cases within which the bug was noticed; None for never."""
        within: int | None = self.rows.get(bug.issue, {}).get("within")
        return within

    def write(self) -> None:
        """Writes the table, one line per bug."""
        lines = ",\n".join(
            f"    {json.dumps(issue)}: {json.dumps(row)}"
            for issue, row in sorted(self.rows.items())
        )
        text = f'{{\n  "versions": {json.dumps(self.versions)},\n  "rows": {{\n{lines}\n  }}\n}}\n'
        FILE.write_text(text, encoding="utf-8")


def read() -> Outcomes:
    """The table as it was last written; empty where there is none yet."""
    if not FILE.exists():
        return Outcomes()
    data = json.loads(FILE.read_text(encoding="utf-8"))
    return Outcomes(data["rows"], data["versions"])
