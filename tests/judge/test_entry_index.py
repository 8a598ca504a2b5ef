"""The index finds what reading all entries would find, in the order of the file."""

from __future__ import annotations

from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st

from consistency.judge import tolerances
from consistency.judge.entry_index import EntryIndex, Environment

TEXT = """
extends: packaged
defaults:
  float32: {c: 1, source: "docs/a.md"}
families:
  reduction:
    float32: {c: 2, source: "docs/b.md"}
  matmul:
    any: {lambda: 3, source: "docs/c.md"}
operators:
  sum:
    float32: {c: 4, source: "docs/d.md"}
  linalg.*:
    float32: {c: 5, source: "docs/e.md"}
  linalg.svd, sum:
    float64: {c: 6, source: "docs/f.md"}
  "[ms]um":
    any: {c: 7, source: "docs/g.md"}
backends:
  cuda:
    - device: "*H100*"
      driver: ">=550"
      operators:
        sum:
          float32: {c: 8, source: "docs/h.md"}
        "*":
          float32: {c: 9, source: "docs/i.md"}
"""


@given(
    st.sampled_from(["sum", "mum", "linalg.svd", "linalg", "exp"]),
    st.sampled_from(["reduction", "matmul", ""]),
    st.sampled_from(["cpu", "cuda", "cuda+tf32", "numpy"]),
    st.sampled_from(["", "NVIDIA H100", "NVIDIA A100"]),
    st.sampled_from(["", "549.9", "550.1"]),
)
def test_the_index_finds_what_reading_all_entries_finds(
    operator: str, family: str, backend: str, device: str, driver: str
) -> None:
    entries = tolerances.from_text("tolerances.yaml", TEXT)._entries
    environment = Environment(backend, device, driver)
    index = EntryIndex(entries)
    for _ in range(2):  # the second look-up is in what was laid out for the first
        assert index.entries(environment, operator, family) == [
            entry
            for entry in entries
            if entry.reaches(environment)
            and (entry.level != 2 or entry.name == family)
            and (entry.level != 3 or fnmatchcase(operator, entry.name))
        ]
