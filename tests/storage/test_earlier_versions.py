"""Bundles, recordings, corpora and expectation files as consistency 0.1.0 wrote them before its
verdict words and its record of a fingerprint changed."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from consistency.cli.main import main
from consistency.core.verdict import OLD_VERDICTS
from consistency.judge.known import load
from consistency.judge.tolerances import load as load_tolerances
from consistency.judge.tolerances import with_more
from consistency.storage import bundle, lookup
from consistency.storage.corpus.merging import CorpusMerger
from consistency.storage.corpus.reading import load as load_corpus
from consistency.storage.recording.reading import Recording

DATA = Path(__file__).resolve().parents[1] / "data"
BUNDLE, RECORDING, CORPUS = (
    DATA / name for name in ("bundle-format-2", "recording-format-1", "corpus-format-1")
)
FAILURE = BUNDLE / "failures" / "matmul-bdd2f5e747-wrong-forward"
BACKEND = f"{DATA / 'wrong_backend.py'}:backend"


def output_of(*arguments: object, status: int) -> str:
    shown = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert shown.exit_code == status, shown.output
    return shown.output


def test_the_bundle_holds_the_old_words() -> None:
    rows = [row for _, row in bundle.lines(BUNDLE / "results.jsonl")]
    assert {row["verdict"] for row in rows} >= set(OLD_VERDICTS)


def test_results_of_a_bundle_have_the_new_words() -> None:
    verdicts = Counter(result.verdict.value for result in bundle.read_results(BUNDLE))
    assert verdicts == {
        "divergent": 8, "exact": 11, "rounding": 6, "known": 5, "inconclusive": 2
    }  # fmt: skip


def test_a_bundle_is_reported(tmp_path: Path) -> None:
    text = output_of("report", BUNDLE, "--text", status=0)
    assert "6 divergent" in text
    assert "5 known" in text
    assert "2 inconclusive" in text
    output_of("report", BUNDLE, "-o", tmp_path / "page.html", status=0)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "running sum 24 bits, nearest even" in page  # of the fingerprint that it keeps
    assert "inputs and results flushed: matmul, linear, bmm, conv2d bfloat16" in page


@pytest.mark.nightly
def test_a_failure_is_found_and_replayed() -> None:
    found = lookup.find(str(FAILURE))
    assert found.failing is not None
    assert found.failing.verdict.value == "divergent"
    known = next(r for r in bundle.read_results(BUNDLE) if r.verdict.value == "known")
    assert lookup.find(str(BUNDLE), known.case.id).failing is not None
    text = output_of("repro", FAILURE, "--backend", BACKEND, "--json", status=1)
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert [(row["backend"], row["verdict"]) for row in rows] == [("wrong", "divergent")]


@pytest.mark.nightly
def test_a_bundle_is_compared_with_a_new_one(tmp_path: Path) -> None:
    output_of(
        "run", "matmul", "neg", "sign", "--dtype", "float32", "--backend", "cpu",
        "--backend", BACKEND, "--corpus", CORPUS, "--examples", 3, "--no-shrink",
        "--no-fingerprint", "--expectations", DATA / "known-divergences.yaml",
        "--out", tmp_path / "new", status=1,
    )  # fmt: skip
    results = bundle.read_results(tmp_path / "new")
    known, was_known = (
        {r.operator for r in rows if r.verdict.value == "known"}
        for rows in (results, bundle.read_results(BUNDLE))
    )
    assert known - {"sign"} == was_known != set()  # sign(NaN) is drawn and known since
    assert not {r.verdict.value for r in results} & set(OLD_VERDICTS)
    output_of("diff", BUNDLE, tmp_path / "new", status=0)


@pytest.mark.nightly
def test_a_recording_is_judged() -> None:
    recording = Recording(RECORDING)
    try:
        outcomes = [recording.outcome(row) for row in recording.rows]
        assert [outcome.status for outcome in outcomes] == ["ok"] * 8
        assert all(o.tensor is not None for outcome in outcomes for o in outcome.outputs)
    finally:
        recording.close()
    assert "8 divergent" in output_of("judge", RECORDING, status=1)


@pytest.mark.nightly
def test_a_corpus_is_read_replayed_and_merged(tmp_path: Path) -> None:
    corpus = load_corpus(CORPUS)
    assert len(corpus.cases) == 12
    assert corpus.digest == "c0b993eb34fbd25d222160b060b8bb44cd24cbdec606b36c009a2d93fe830af6"
    shown = output_of("corpus", "show", CORPUS, status=0)
    assert "neg · float32 · forward · known · wrong · drawn" in shown
    merged = CorpusMerger()
    merged.add(CORPUS)
    merged.add(BUNDLE)
    lines = merged.chosen()
    assert {line.case.digest for line in lines} == {case.digest for case in corpus.cases}
    words = {kind[3] for line in lines for kind in line.failures}
    assert words == {"divergent", "known"}
    output_of(
        "run", "--corpus", CORPUS, "--backend", "cpu", "--no-bundle", "neg", "--examples", 1,
        status=0,
    )  # fmt: skip


def test_a_bundle_is_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "resumed"
    shutil.copytree(BUNDLE, folder)
    header = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    header["settings"]["specs"]["wrong"] = BACKEND
    rules = with_more(load_tolerances(), [str(DATA / "known-divergences.yaml")])
    header["settings"]["tolerances"] = rules.digest  # of a run with today's rules
    header["settings"]["shipped"] = False  # as many cases as versions before had
    del header["seconds"], header["complete"]
    (folder / "bundle.json").write_text(json.dumps(header), encoding="utf-8")
    before = len(bundle.read_results(folder))
    output_of(
        "run", "matmul", "neg", "sign", "--dtype", "float32", "--backend", "cpu",
        "--backend", BACKEND, "--examples", 3, "--seed", 12, "--repeat", 1, "--no-fingerprint",
        "--expectations", DATA / "known-divergences.yaml", "--out", folder, "--resume",
        "--no-shipped", status=1,
    )  # fmt: skip
    assert len(bundle.read_results(folder)) >= before


def test_an_expectations_file_is_read() -> None:
    (entry,), _ = load([DATA / "known-divergences.yaml"])
    assert (entry.operator, entry.verdicts) == ("neg", ("divergent",))
