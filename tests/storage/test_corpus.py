"""Corpora: replayed first and in a useful order, the rest explored; merged in any order; resumed
after a kill; damage is a line."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import consistency
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.engine import engine, events
from consistency.engine import plan as planning
from consistency.engine import standard_corpus as standard_module
from consistency.engine.config import operator_dtypes
from consistency.engine.standard_corpus import standard
from consistency.storage import bundle
from consistency.storage.cases import CaseEntry
from consistency.storage.corpus.corpus import Corpus, digest_of
from consistency.storage.corpus.merging import DRAWN, PER_KIND, SMALL, CorpusMerger
from consistency.storage.corpus.reading import load, read
from tests.support.commands import command
from tests.support.spying import spied

BACKENDS = ["--backend", "cpu", "--backend", "numpy"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONSISTENCY_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A corpus of three operators, six cases of each in float32 and float64."""
    folder = tmp_path_factory.mktemp("corpora") / "small"
    dtypes = ["--dtype", "float32", "--dtype", "float64"]
    shown = command("corpus make exp sum matmul", *dtypes, "--examples", "6", "-o", folder)
    assert shown.exit_code == 0, shown.output
    return folder


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of a run with failures, shrunk ones too."""
    folder = tmp_path_factory.mktemp("failing") / "b"
    consistency.run(
        ["exp", "sinh"],
        [Off()],
        ["float32"],
        ["forward"],
        examples=8,
        shipped=False,
        exhaustive=False,
        out=folder,
    )
    return folder


class Off(consistency.Backend):
    name = "off"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        return super().call(operator, args, kwargs) + 1e-3 * (args[0] < 0)


def rows(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def bytes_of(folder: Path) -> bytes:
    return (folder / "cases.jsonl").read_bytes()


# --- replaying and exploring


def test_a_corpus_is_replayed_and_nothing_else(small: Path, tmp_path: Path) -> None:
    shown = command("run --corpus", small, *BACKENDS, "--out", tmp_path / "b")
    assert shown.exit_code == 0, shown.output
    assert f"36 cases of the corpus small ({load(small).digest[:12]})" in shown.output
    assert {row["case_id"] for row in rows(tmp_path / "b")} == {
        line.case.id for line in read(small)
    }
    assert Counter(row["origin"] for row in rows(tmp_path / "b")).keys() == {"replayed"}
    corpus = bundle.read_header(tmp_path / "b")["corpus"]
    assert corpus == {"name": "small", "digest": load(small).digest, "cases": 36, "replayed": 36}
    told = (
        f" · 3 operators · 36 of 36 cases of the corpus small ({load(small).digest[:12]}) "
        f"replayed\n"
    )
    assert told in command("report {} --text", tmp_path / "b").output


def test_every_operator_and_dtype_is_reached_early(small: Path) -> None:
    chosen = engine.configure(["exp", "sum", "matmul"], ["cpu"], corpus=load(small), explore=False)
    plan = list(planning.plan(chosen, lambda: False))
    assert [len(group.cases) for group in plan] == [2] * 6 + [4] * 6
    assert [group.more for group in plan] == [True] * 6 + [False] * 6
    first = [(group.operator.name, group.dtype) for group in plan[:6]]
    assert first == [(group.operator.name, group.dtype) for group in plan[6:]]
    assert len(set(first)) == 6
    assert len({case.id for group in plan for case in group.cases}) == 36


def test_with_a_time_budget_the_rest_is_explored_in_time(small: Path, tmp_path: Path) -> None:
    arguments = [
        "run", "exp", "sum", "matmul", "--corpus", small, *BACKENDS, "--time-budget", "3s", "--out",
        tmp_path / "b",
    ]  # fmt: skip
    shown = command(*arguments)
    assert shown.exit_code in (0, 1), (
        shown.output
    )  # exploring finds what is wrong with matmul in torch 2.4.1
    found = rows(tmp_path / "b")
    origins = [row["origin"] for row in found]
    assert origins == sorted(origins, reverse=True), "replayed before explored"
    known = {line.case.id for line in read(small)}
    assert {row["case_id"] for row in found if row["origin"] == "replayed"} == known
    assert not {row["case_id"] for row in found if row["origin"] == "explored"} & known
    assert origins.count("explored") > 20
    header = bundle.read_header(tmp_path / "b")
    chosen = ["exp", "sum", "matmul"]
    again = engine.configure(
        chosen,
        ["cpu"],
        examples=5,
        time_budget=1.0,
        shipped=True,
        corpus=load(small),
        seed=header["settings"]["seed"],
    )
    plan = (group for group in planning.plan(again, lambda: False) if group.origin == "explored")
    first = [case.id for group in itertools.islice(plan, 2) for case in group.cases]
    assert [
        row["case_id"] for row in found if row["origin"] == "explored" and row["case_id"] in first
    ], "the seed tells them"


@pytest.mark.nightly
def test_every_run_explores_something_else_unless_a_seed_is_given(
    small: Path, tmp_path: Path
) -> None:
    seeds = []
    for number, extra in enumerate([[], [], ["--seed", "7"]]):
        folder = tmp_path / str(number)
        assert (
            command(
                "run exp --corpus {} --backend cpu --examples 2 --out", small, folder, *extra
            ).exit_code
            == 0
        )
        seeds.append(bundle.read_header(folder)["settings"]["seed"])
        assert {row["origin"] for row in rows(folder)} == {"replayed", "explored"}, (
            "examples were asked for"
        )
    assert seeds[2] == 7
    assert len(set(seeds)) == 3


def test_scaling_is_measured_once_and_not_run_told_once(small: Path) -> None:
    chosen = engine.configure(["matmul"], ["cpu", "numpy"], corpus=load(small), explore=False)
    every = list(engine.run(chosen))
    assert sum(isinstance(event, events.PrecisionScalingMeasured) for event in every) == 1
    refused = [
        e
        for e in every
        if isinstance(e, events.Judged) and all(r.verdict.value == "unsupported" for r in e.results)
    ]
    assert len(refused) == 2, "numpy has no gradients: once in float32, once in float64"


# --- the standard corpus


def test_the_standard_corpus_is_drawn_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = operator_dtypes(engine.configure(["tanh", "mul"], ["cpu"], ["float32"]))
    first = standard(pairs)
    assert (first.name, len(first.cases)) == ("standard", 24)
    with monkeypatch.context() as patch:
        patch.setattr(standard_module, "draw", lambda *_: pytest.fail("drawn again"))
        assert standard(pairs).digest == first.digest
        assert [case.line for case in standard(pairs).cases] == [case.line for case in first.cases]
    for path in (cache / "corpora").glob("*/*.jsonl"):  # damaged in the cache, drawn again
        path.write_text(path.read_text(encoding="utf-8")[:-30], encoding="utf-8")
    assert standard(pairs).digest == first.digest
    monkeypatch.setattr(standard_module, "_version", lambda: "other")
    assert standard(pairs).digest == first.digest


def test_a_nightly_run_replays_the_standard_corpus_within_its_time(
    cache: Path, tmp_path: Path
) -> None:
    out = tmp_path / "b"
    arguments = "run neg abs --dtype float32 --backend cpu --profile nightly --time-budget 2s"
    shown = command(arguments, "--out", out)
    assert shown.exit_code == 0, shown.output
    header = bundle.read_header(out)
    assert (header["corpus"]["name"], header["corpus"]["cases"], header["corpus"]["replayed"]) == (
        "standard",
        24,
        24,
    )
    pairs = operator_dtypes(engine.configure(["neg", "abs"], ["cpu"], ["float32"]))
    assert header["corpus"]["digest"] == standard(pairs).digest
    without = standard(
        operator_dtypes(engine.configure(["floor", "ceil", "round"], ["cpu"], ["float32"])),
        seconds=0.0,
    )
    assert len(without.cases) in (0, 12)
    assert without.groups == len(without.cases) // 12
    assert without.problems == (f"the standard corpus lacks {3 - without.groups} of 3 operators × "
    f"dtypes this time: "
                                "drawing its cases took too much of the time budget",)  # fmt: skip


# --- interrupted


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
@pytest.mark.parametrize("when", [pytest.param("replayed", marks=pytest.mark.nightly), "explored"])
def test_kill_9_and_resume_with_a_corpus_and_a_time_budget(
    when: str, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "b"
    arguments = [
        "run", "exp", "sum", "matmul", "--dtype", "float32", "--corpus", str(small), *BACKENDS,
        "--out", str(out),
    ]  # fmt: skip
    process = [sys.executable, "-m", "consistency", *arguments, "--time-budget", "60s"]
    running = subprocess.Popen(process, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        results, until = out / "results.jsonl", time.monotonic() + 90
        while time.monotonic() < until and not (
            results.exists() and when in results.read_text(encoding="utf-8")
        ):
            time.sleep(0.01)
        assert command(*arguments, "--resume").exit_code == 2, "it is still being written"
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    before = bundle.read_results(out)
    assert before
    seed = bundle.read_header(out)["settings"]["seed"]
    with spied(monkeypatch) as seen:
        shown = command(*arguments, "--resume", "--time-budget", "2s")
    assert shown.exit_code == 0, shown.output
    after = bundle.read_results(out)
    assert [r.key for r in after[: len(before)]] == [r.key for r in before]
    assert len(after) == len({r.key for r in after}), "every key once"
    assert not {r.key for r in before} & set(seen), "nothing is judged twice"
    header = bundle.read_header(out)
    assert header["settings"]["seed"] == seed
    assert (header["corpus"]["replayed"], header["corpus"]["cases"]) == (18, 36)
    assert {r.case.id for r in after} >= {
        line.case.id for line in read(small) if line.case.dtype == "float32"
    }


@pytest.mark.nightly
def test_another_corpus_or_none_is_not_resumed_with(small: Path, tmp_path: Path) -> None:
    other, out = tmp_path / "other", tmp_path / "b"
    shutil.copytree(small, other)
    (other / "cases.jsonl").write_bytes(b"".join(bytes_of(small).splitlines(keepends=True)[:-1]))
    arguments = ["run", "exp", "--backend", "cpu", "--out", str(out)]
    assert command(*arguments, "--corpus", small).exit_code == 0
    for extra in (["--corpus", str(other)], []):
        shown = command(*arguments, "--resume", *extra)
        assert shown.exit_code == 2
        assert f"was begun with another corpus ({load(small).digest[:12]}, now " in shown.output
        assert shown.output.strip().endswith(
            "resume with the same, or name another folder with --out"
        )


# --- merging


@pytest.mark.nightly
def test_what_a_run_found_is_added_small_and_as_drawn(
    small: Path, failing: Path, tmp_path: Path
) -> None:
    shown = command("corpus merge {} {} -o {}", small, failing, tmp_path / "m")
    assert shown.exit_code == 0, shown.output
    lines = list(read(tmp_path / "m"))
    drawn = {line.case.digest for line in read(small)}
    assert drawn <= {line.case.digest for line in lines}
    found = [line for line in lines if line.failures]
    kinds = Counter(kind for line in found for kind in line.failures)
    assert {kind[-1] for kind in kinds} == {SMALL, DRAWN}
    assert {kind[0] for kind in kinds} == {"exp", "sinh"}
    assert all(count <= PER_KIND[kind[-1]] for kind, count in kinds.items())
    assert f"{len(found)} of them with which failures were found" in shown.output
    assert load(tmp_path / "m").digest in shown.output
    again = consistency.run(
        ["exp", "sinh"], [Off()], ["float32"], ["forward"], corpus=tmp_path / "m"
    )
    # Verdicts come back as they were found: of `sinh` some are those of a known defect.
    verdicts = {(r.case.digest, r.verdict.value) for r in again.results}
    assert verdicts >= {(line.case.digest, kind[3]) for line in found for kind in line.failures}


@pytest.mark.nightly
def test_replayed_failures_are_not_taken_again(failing: Path, tmp_path: Path) -> None:
    shutil.copytree(failing, tmp_path / "b")
    text = "".join(json.dumps(row | {"origin": "replayed"}) + "\n" for row in rows(failing))
    (tmp_path / "b" / "results.jsonl").write_text(text, encoding="utf-8")
    shown = command("corpus merge {} -o {}", tmp_path / "b", tmp_path / "m")
    assert shown.exit_code == 2
    assert "no failure that was found by exploring" in shown.output


@pytest.mark.nightly
def test_the_folder_of_a_failure_is_a_source(failing: Path, tmp_path: Path) -> None:
    folder = next(iter(sorted((failing / "failures").iterdir())))
    assert command("corpus merge {} -o {}", folder, tmp_path / "m").exit_code == 0
    (line,) = read(tmp_path / "m")
    assert line.case.line == (folder / "case.json").read_text(encoding="utf-8").strip()
    assert line.failures[0][-1] == SMALL


def made_up(folder: Path, *, seed: int) -> Path:
    """A corpus with many failures of few kinds, some of them overlapping with other seeds."""
    folder.mkdir()
    lines = []
    for number in range(12):
        case = Case(
            "exp",
            "float32",
            (TensorRecipe((1 + (number * seed) % 17,), "float32", stop=30 + number),),
        )
        kinds = [
            (
                "exp",
                "float32",
                "forward",
                "divergent",
                "",
                ("cpu", "cuda")[(number + seed) % 2],
                (SMALL, DRAWN)[number % 3 == 0],
            )
        ]
        if number % 5 == seed % 5:
            kinds.append(("exp", "float32", "forward", "structure", "", "cpu", DRAWN))
        lines.append(CaseEntry(case, failures=() if number == seed else tuple(sorted(kinds))))
    header = {"format": 1, "kind": "corpus", "complete": True, "settings": {"name": folder.name}}
    (folder / "recording.json").write_text(json.dumps(header), encoding="utf-8")
    (folder / "cases.jsonl").write_text(
        "".join(json.dumps(line.to_json()) + "\n" for line in lines), encoding="utf-8"
    )
    return folder


def test_merging_is_idempotent_commutative_and_associative(tmp_path: Path) -> None:
    sources = [made_up(tmp_path / str(seed), seed=seed) for seed in (1, 2, 3)]

    def merged(*places: Path) -> Path:
        out = tmp_path / f"m{len(list(tmp_path.iterdir()))}"
        assert command("corpus merge", *places, "-o", out, "--name", "same").exit_code == 0
        return out

    whole = bytes_of(merged(*sources))
    for order in itertools.permutations(sources):
        assert bytes_of(merged(*order)) == whole
        assert bytes_of(merged(merged(*order[:2]), order[2])) == whole
    again = merged(*sources)
    assert command("corpus merge", again, *sources, again, "-o", again).exit_code == 0
    assert bytes_of(again) == whole
    kinds = Counter(kind for line in read(again) for kind in line.failures)
    assert max(kinds.values()) == 3
    assert len(list(read(again))) < len(
        {line.case.id for source in sources for line in read(source)}
    )


def test_a_corpus_is_never_overwritten_by_mistake(
    small: Path, failing: Path, tmp_path: Path
) -> None:
    before = bytes_of(small)
    for arguments in (["merge", failing, "-o", small], ["make", "exp", "-o", small]):
        shown = command("corpus", *arguments)
        assert shown.exit_code == 2
        assert (
            f"{small} already holds a corpus; add to it with `consistency corpus merge {small} "
            f"BUNDLE -o {small}`"
        ) in shown.output
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    assert "holds something that is no corpus" in command("corpus make exp -o {}", tmp_path).output
    assert bytes_of(small) == before


# --- shown, checked, damaged


def test_a_corpus_is_shown(small: Path, failing: Path, tmp_path: Path) -> None:
    assert command("corpus merge {} {} -o {}", small, failing, tmp_path / "m").exit_code == 0
    shown = command("corpus show", tmp_path / "m")
    assert shown.exit_code == 0
    assert shown.output.startswith("m   ")
    assert "float64 18" in shown.output
    assert " exp · float32 · forward · divergent" in shown.output
    data = json.loads(command("corpus show {} --json", tmp_path / "m").output)
    assert data["digest"] == load(tmp_path / "m").digest
    assert data["operators"]["matmul"] == 12
    assert (
        command("corpus check", tmp_path / "m").output
        == f"✓ {data['cases']} of {data['cases']} cases can be replayed here\n"
    )


def test_what_cannot_be_replayed_is_told(small: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    shutil.copytree(small, folder)
    strange = Case("no_such_operator", "float32", (TensorRecipe((3,), "float32", stop=5),))
    huge = Case("exp", "float32", (TensorRecipe((1 << 25,), "float32", stop=5),))
    text = "".join(json.dumps(CaseEntry(case).to_json()) + "\n" for case in (strange, huge, huge))
    with (folder / "cases.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(text)
    shown = command("corpus check", folder)
    assert shown.exit_code == 0
    assert "1 case not replayed here: " in shown.output
    assert f"! {huge.id} has 33,554,432 numbers: it needs some 1.2 GB" in shown.output
    assert "1 line twice" in shown.output
    assert "✓ 37 of 38 cases can be replayed here" in shown.output
    run = command("run sum --corpus {} --backend cpu --out {}", folder, tmp_path / "b")
    assert run.exit_code == 0, run.output
    assert {row["operator"] for row in rows(tmp_path / "b")} == {"sum"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "damaged"), ("[]", "damaged"), ("{}", "a case has no id"),
        ('{"id": "exp-0"}', "a case is a JSON object"),
        ('{"id": "exp-0", "case": 3}', "a case is a JSON object"),
        ("REPLACED", "is filed under another id"), ("FOUND", "damaged: it was found as"),
        ("DIRECTIONS", "damaged: its directions are"),
        ("[" * 50_000, "damaged"),
    ],
)  # fmt: skip
def test_a_damaged_line_is_named_everywhere(
    line: str, words: str, small: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "c"
    shutil.copytree(small, folder)
    lines = bytes_of(folder).decode().splitlines()
    row = json.loads(lines[4])
    changed = {
        "REPLACED": row | {"id": "exp-0000000000"}, "FOUND": row | {"found": [[1]]},
        "DIRECTIONS": row | {"directions": ["up"]},
    }  # fmt: skip
    lines[4] = json.dumps(changed[line]) if line in changed else line
    (folder / "cases.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for arguments in (
        ["run", "--corpus", folder, "--backend", "cpu", "--no-bundle"],
        ["corpus", "merge", folder, "-o", tmp_path / "m"],
    ):
        shown = command(*arguments)
        assert shown.exit_code == 2
        (said,) = shown.output.strip().splitlines()
        assert "cases.jsonl:5  " in said
        assert words in said
    assert not (tmp_path / "m").exists()
    shown = command("corpus check", folder)
    assert shown.exit_code == 1
    assert "✗ cases.jsonl:5  " in shown.output
    assert shown.output.endswith("✗ 1 damaged line\n")


def test_what_is_no_corpus_is_one_line(failing: Path, small: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    shutil.copytree(small, empty)
    (empty / "cases.jsonl").write_bytes(b"")
    for place, words in (
        (failing, "is not a corpus: it has no"),
        (tmp_path / "none", "is not a corpus: there is no"),
        (empty, "holds no case"),
    ):
        shown = command("run exp --corpus {} --backend cpu --no-bundle", place)
        assert (shown.exit_code, words in shown.output, len(shown.output.strip().splitlines())) == (
            2,
            True,
            1,
        )
    shown = command("run tanh --corpus {} --backend cpu --no-bundle", small)
    assert shown.exit_code == 2
    assert "the corpus small has no case of what is chosen here" in shown.output


def test_a_digest_is_of_the_cases_only() -> None:
    cases = tuple(
        Case("exp", "float32", (TensorRecipe((i,), "float32", stop=i),)) for i in range(1, 5)
    )
    assert (
        Corpus("a", cases).digest
        == Corpus("b", cases[::-1]).digest
        == digest_of([c.digest for c in cases] * 2)
    )
    assert Corpus("a", cases[1:]).digest != Corpus("a", cases).digest
    merged = CorpusMerger({c.digest: CaseEntry(c) for c in cases}, {c.digest for c in cases})
    assert digest_of(line.case.digest for line in merged.chosen()) == Corpus("a", cases).digest
    assert replace(Corpus("a", cases), groups=3).to_json()["groups"] == 3
