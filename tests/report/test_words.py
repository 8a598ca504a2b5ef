"""Words that people stumbled over."""

from __future__ import annotations

import io

from consistency.cli import streams
from consistency.report.bundle_view import called
from consistency.report.summary import Cell


def test_a_corpus_called_corpus_is_named_once() -> None:
    assert called("corpus") == called("") == "the corpus"
    assert called("nightly") == "the corpus nightly"


def test_a_cell_of_known_divergences_alone_is_not_exact() -> None:
    assert Cell({"exp": "warned"}).text() == ("! 1 of 1", "warned")
    assert Cell({"exp": "warned", "neg": "passed"}, exact=True).text() == ("! exact", "warned")
    assert Cell({"exp": "warned"}, rho=0.25).text() == ("! 0.25", "warned")
    assert Cell({"neg": "passed"}, exact=True).text() == ("✓ exact", "passed")


def test_a_stream_without_our_signs_gets_plain_ones() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors=streams._HANDLER)
    stream.write("✓ 0.3 × budget · 3 → 4 … ✗ é 🙂")
    stream.flush()
    assert raw.getvalue() == b"+ 0.3 x budget - 3 -> 4 ... x \\xe9 \\U0001f642"
