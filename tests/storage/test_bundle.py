"""A run on disk: it comes back as it was, survives a kill, and nothing in it can write
elsewhere."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

import consistency
from consistency.core import reading
from consistency.core.locking import Lock
from consistency.core.model import Case, Comparison, ElementGroup, Measured, Result, Worst
from consistency.core.recipe import TensorRecipe
from consistency.core.verdict import OutcomeStatus, Verdict
from consistency.engine import bundle_writer, engine, events, unit_runner
from consistency.errors import BundleError
from consistency.generate.materialize import prepare
from consistency.judge import tolerances
from consistency.judge.judge import judge
from consistency.report import bundles
from consistency.storage import bundle
from consistency.storage.bundle.packing import FILES, pack
from consistency.storage.cases import read_cases
from consistency.storage.lookup import find
from tests.support.commands import command
from tests.support.snapshots import Snapshot
from tests.support.spying import spied

ARGUMENTS: dict[str, Any] = {
    "operators": ["exp", "sum"],
    "dtypes": ["float32"],
    "backends": ["cpu", "numpy"],
    "examples": 4,
}


class Off(consistency.Backend):
    """A little off for negative inputs."""

    name = "off"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        result = super().call(operator, args, kwargs)
        return result + 1e-3 * (args[0] < 0)


class Killed(Exception):  # noqa: N818 - what a kill leaves, without ending the tests
    pass


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> engine.Run:
    """An uninterrupted run with its bundle."""
    return consistency.run(**ARGUMENTS, out=tmp_path_factory.mktemp("whole") / "bundle")


def folder_of(run: engine.Run) -> Path:
    assert run.out is not None
    return run.out


def copy_of(run: engine.Run, into: Path) -> Path:
    into.mkdir()
    for path in folder_of(run).iterdir():
        if path.is_file():
            (into / path.name).write_bytes(path.read_bytes())
    return into


def result(**changes: Any) -> Result:
    case = Case("exp", "float32", (TensorRecipe((3,), "float32", stop=5),))
    return replace(
        Result(case, "cpu", "forward", Verdict("divergent"), "12 × budget", {"rho_max": 12.0}),
        **changes,
    )


def written(folder: Path, *results: Result) -> list[Result]:
    """The results as they come back from a bundle."""
    write = bundles.writer(folder)
    with contextlib.closing(write):
        write(events.Started(engine.configure(["exp"], ["cpu"]), {}, 1, 1))
        for one in results:
            write(events.Judged(one.case, (one,)))
        write(events.Finished(1.0, False))
    return bundle.read_results(folder)


# --- what comes back


def test_results_come_back_as_they_were(whole: engine.Run) -> None:
    back = bundle.read_results(folder_of(whole))
    assert len(back) == len(whole.results) > 20
    for got, want in zip(back, whole.results, strict=True):
        assert got == want
        assert got.case.line == want.case.line


def test_stored_comparisons_are_judged_again_without_tensors(whole: engine.Run) -> None:
    """Same rules, same verdict and ρ; a larger c, a smaller ρ."""
    rules = tolerances.load()
    back = {r.key: r for r in bundle.read_results(folder_of(whole))}
    smaller = 0
    for key, stored in back.items():
        if stored.comparison is None or stored.explanation.startswith(
            "the CPU in this dtype is itself"
        ):
            continue
        where = {"direction": stored.direction, "backend": stored.backend}
        rule = rules.rule(stored.operator, stored.dtype, family=stored.family, **where)
        policy = rules.policy(stored.backend, operator=stored.operator, dtype=stored.dtype)
        baseline = back[(key[0], "cpu", key[2])].comparison
        again = judge(stored.comparison, baseline, rule, policy)
        assert (again.verdict, again.explanation, dict(again.metrics)) == (
            stored.verdict,
            stored.explanation,
            dict(stored.metrics),
        )
        wider = judge(stored.comparison, baseline, replace(rule, c=2 * rule.c), policy)
        if stored.operator == "exp" and stored.metrics.get("rho_max", 0.0) > 0.0:
            assert wider.metrics["rho_max"] < stored.metrics["rho_max"]
            smaller += 1
    assert smaller > 3


def test_a_comparison_keeps_every_bit(tmp_path: Path) -> None:
    pareto_front = ((0.1, 1 / 3), (5e-324, math.inf))
    element_group = ElementGroup(
        (0, -math.inf, 0.5),
        1.0000000000000002,
        0.1,
        1e308,
        pareto_front,
        (Worst((1, 2), -0.0, math.nan), Worst((), 0.0, 0.0)),
        (),
    )
    measured = Measured(
        "out/0", "float32", (0, 3), 7, (element_group, ElementGroup(None)), True, 3, 0.1, 0.2, 0.3,
        True, 1, 2, 3,
        {"nan": 1, "zero-sign": 2},
        Worst((3,), math.inf, -math.inf), "why", "where",
    )  # fmt: skip
    for comparison in (
        Comparison(OutcomeStatus.OK, (measured,), "", "a note"),
        Comparison(OutcomeStatus.RAISED, note="RuntimeError: boom"),
        Comparison(OutcomeStatus.OK),
    ):
        (back,) = written(tmp_path / f"b{id(comparison)}", result(comparison=comparison))
        assert repr(back.comparison) == repr(comparison)  # NaN and -0.0 included


def test_numbers_that_json_lacks_survive(tmp_path: Path) -> None:
    metrics = {"rho_max": math.inf, "ulp_max": math.nan, "scaled_max": -math.inf, "abs_max": 1e300}
    (back,) = written(tmp_path / "b", result(metrics=metrics, worst=Worst((0,), math.nan, -0.0)))
    assert repr(dict(back.metrics)) == repr(metrics)
    assert repr(back.worst) == repr(Worst((0,), math.nan, -0.0))
    for line in (tmp_path / "b" / "results.jsonl").read_text(encoding="utf-8").splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_allowed_reduced_precision_still_only_warns(tmp_path: Path) -> None:
    (back,) = written(tmp_path / "b", result(verdict=Verdict("reduced-precision", allowed=True)))
    assert back.verdict.warns


def test_a_failure_keeps_its_tensors(tmp_path: Path) -> None:
    run = consistency.run(
        ["exp"],
        [Off()],
        ["float32"],
        ["forward"],
        examples=8,
        shipped=False,
        exhaustive=False,
        out=tmp_path / "b",
    )
    assert run.failures
    for failing in run.failures:
        folder = tmp_path / "b" / "failures" / bundle.failure_id(failing)
        assert find(str(folder)).case.digest == failing.case.digest
        tensors = load_file(folder / "tensors.safetensors")
        inputs = prepare(failing.case).build().bases
        assert torch.equal(tensors["base/0"].view(torch.int32), inputs[0].view(torch.int32)), (
            "every bit, NaN too"
        )
        assert tensors["reference/out/0"].dtype == torch.float64
        text = (folder / "message.txt").read_text(encoding="utf-8")
        assert text.startswith("exp · float32 · forward · off   divergent: ")


def test_environment_and_header_say_what_ran(whole: engine.Run) -> None:
    header = bundle.read_header(folder_of(whole))
    assert (header["complete"], header["settings"]["examples"], header["unavailable"]) == (
        True,
        4,
        {},
    )
    environment = json.loads((folder_of(whole) / "environment.json").read_text(encoding="utf-8"))
    assert environment["cpu"]["torch"] == torch.__version__
    assert environment.keys() == {"cpu", "numpy"}


def test_every_failure_gets_a_row_but_not_every_one_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle_writer, "MAX_FAILURE_FOLDERS", 2)
    monkeypatch.setattr(unit_runner, "SHRINK_SECONDS", 0.5)
    run = consistency.run(
        ["exp", "sinh"],
        [Off()],
        ["float32"],
        ["forward"],
        examples=8,
        shipped=False,
        exhaustive=False,
        out=tmp_path / "b",
    )
    folders = {path.name for path in (tmp_path / "b" / "failures").iterdir()}
    lines = [
        json.loads(line)
        for line in (tmp_path / "b" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    smaller = {row["case_id"] for row in lines if row.get("shrunk")}
    failing = [r for r in run.results if r.verdict.fails]
    assert len(smaller) >= 2, "one of each operator at least"
    assert len(failing) > 4
    assert {bundle.failure_id(r) for r in failing if r.case.id in smaller} <= folders
    assert len(folders) == 2 + len(smaller)


# --- interrupted and resumed


def judged(results: Mapping[Any, Result] | list[Result]) -> dict[tuple[str, str, str], str]:
    every = results.values() if isinstance(results, Mapping) else results
    return {r.key: r.verdict.value for r in every}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("after", [1, 2, 4, 6, 9])
def test_a_killed_run_is_completed(
    whole: engine.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    events = 0

    def kill(event: events.Event) -> None:
        nonlocal events
        events += 1
        if events == after:
            raise Killed

    with pytest.raises(Killed):
        consistency.run(**ARGUMENTS, out=tmp_path / "b", handlers=[kill])
    before = bundle.read_results(tmp_path / "b")
    with spied(monkeypatch) as seen:
        resumed = consistency.run(**ARGUMENTS, out=tmp_path / "b", resume=True)
    rows = bundle.read_results(tmp_path / "b")
    assert len(rows) == len({r.key for r in rows}), "every key exactly once"
    assert judged(rows) == judged(list(resumed.results)) == judged(list(whole.results))
    assert not {r.key for r in before} & set(seen), "nothing is judged twice"
    assert bundle.read_header(tmp_path / "b")["complete"] is True


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_kill_9_and_resume(tmp_path: Path) -> None:
    script = (
        "import consistency\n"
        f"consistency.run(['exp', 'log'], ['cpu'], ['float32'], ['forward'], examples=60, "
        f"out={str(tmp_path / 'b')!r})"
    )
    running = subprocess.Popen([sys.executable, "-c", script])
    results = tmp_path / "b" / "results.jsonl"
    until = time.monotonic() + 60
    while time.monotonic() < until and not (results.exists() and results.stat().st_size > 2000):
        time.sleep(0.005)
    running.send_signal(signal.SIGKILL)
    running.wait()
    before = bundle.read_results(tmp_path / "b")
    run = consistency.run(
        ["exp", "log"],
        ["cpu"],
        ["float32"],
        ["forward"],
        examples=60,
        out=tmp_path / "b",
        resume=True,
    )
    rows = bundle.read_results(tmp_path / "b")
    assert 0 < len(before) < len(rows) == len({r.key for r in rows})
    fresh = consistency.run(["exp", "log"], ["cpu"], ["float32"], ["forward"], examples=60)
    assert judged(rows) == judged(list(run.results)) == judged(list(fresh.results))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["results.jsonl", "cases.jsonl"])
@pytest.mark.parametrize("lost", [1, 3, 40])
def test_an_incomplete_last_line_is_what_a_kill_leaves(
    whole: engine.Run, tmp_path: Path, name: str, lost: int
) -> None:
    folder = copy_of(whole, tmp_path / "b")
    lines = (folder / "results.jsonl").read_bytes().splitlines(keepends=True)
    cases = (folder / "cases.jsonl").read_bytes().splitlines(keepends=True)
    last = [line for line in lines if json.loads(line)["case_id"] == json.loads(cases[-1])["id"]]
    if name == "cases.jsonl":  # cases are written before the results that refer to them
        (folder / "results.jsonl").write_bytes(b"".join(line for line in lines if line not in last))
        (folder / "cases.jsonl").write_bytes(b"".join(cases)[:-lost])
    else:
        (folder / "results.jsonl").write_bytes(b"".join(lines)[:-lost])
    before = bundle.read_results(folder)
    assert len(before) == len(lines) - (len(last) if name == "cases.jsonl" else 1)
    consistency.run(**ARGUMENTS, out=folder, resume=True)
    assert judged(bundle.read_results(folder)) == judged(list(whole.results))


@pytest.mark.nightly
def test_a_failure_that_was_made_smaller_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resuming shows the small case again, without another search."""
    arguments: dict[str, Any] = {
        "operators": ["exp", "tanh"],
        "dtypes": ["float32"],
        "directions": ["forward"],
        "examples": 6,
    }

    def kill(event: events.Event) -> None:
        if isinstance(event, events.UnitDone):
            raise Killed

    with pytest.raises(Killed):
        consistency.run(**arguments, backends=[Off()], out=tmp_path / "b", handlers=[kill])
    searched: list[str] = []
    original = engine.smallest_failure

    def spy(suspect: Result, *args: Any, **kwargs: Any) -> Result | None:
        searched.append(suspect.operator)
        return original(suspect, *args, **kwargs)

    monkeypatch.setattr(unit_runner, "smallest_failure", spy)
    shown: list[str] = []
    consistency.run(
        **arguments, backends=[Off()], out=tmp_path / "b", resume=True,
        handlers=[lambda event: shown.append(event.result.operator) if isinstance(event,
        events.Minimized) else None],
    )  # fmt: skip
    assert set(searched) == {"tanh"}
    assert set(shown) == {"exp", "tanh"}
    rows = bundle.read_results(tmp_path / "b")
    assert len(rows) == len({r.key for r in rows})


@pytest.mark.parametrize(("changes", "setting"), [
    ({"operators": ["exp"]}, 'operators (["exp", "sum"], now ["exp"])'),
    ({"examples": 5}, "examples (4, now 5)"),
    ({"seed": 1}, "seed (0, now 1)"),
    ({"dtypes": None}, 'dtypes (["float32"], now null)'),
    ({"directions": ["forward"]}, 'directions (["forward", "backward"], now ["forward"])'),
    ({"backends": ["cpu"]}, 'backends (["cpu", "numpy"], now ["cpu"])'),
], ids=lambda value: next(iter(value)) if isinstance(value, dict) else "")  # fmt: skip
def test_resuming_with_other_settings_is_refused(
    whole: engine.Run, changes: dict[str, Any], setting: str
) -> None:
    size = (folder_of(whole) / "results.jsonl").stat().st_size
    with pytest.raises(BundleError) as caught:
        consistency.run(**ARGUMENTS | changes, out=folder_of(whole), resume=True)
    assert f"was begun with other {setting}; resume with the same settings" in str(caught.value)
    assert (folder_of(whole) / "results.jsonl").stat().st_size == size


def test_resuming_with_other_tolerances_or_backends_is_refused(
    whole: engine.Run, tmp_path: Path
) -> None:
    (tmp_path / "t.yaml").write_text("extends: packaged\n", encoding="utf-8")
    with pytest.raises(BundleError, match="was begun with other tolerances"):
        consistency.run(
            **ARGUMENTS, out=folder_of(whole), resume=True, tolerances=tmp_path / "t.yaml"
        )
    folder = copy_of(whole, tmp_path / "b")
    header = json.loads((folder / "bundle.json").read_text(encoding="utf-8")) | {
        "unavailable": {"numpy": "gone"}
    }
    (folder / "bundle.json").write_text(json.dumps(header), encoding="utf-8")
    with pytest.raises(
        BundleError, match=re.escape('other backends were unavailable (["numpy"], now [])')
    ):
        consistency.run(**ARGUMENTS, out=folder, resume=True)


def test_resuming_what_never_began_begins(tmp_path: Path) -> None:
    run = consistency.run(
        ["neg"], ["cpu"], ["float32"], ["forward"], examples=1, out=tmp_path / "b", resume=True
    )
    assert judged(bundle.read_results(tmp_path / "b")) == judged(list(run.results))


# --- damaged, foreign, hostile


def damaged(whole: engine.Run, folder: Path, name: str, number: int, line: bytes) -> str:
    """The error after line ``number`` of a file was replaced."""
    copy_of(whole, folder)
    lines = (folder / name).read_bytes().splitlines(keepends=True)
    lines[number - 1] = line + b"\n"
    (folder / name).write_bytes(b"".join(lines))
    with pytest.raises(BundleError) as caught:
        bundle.read_results(folder)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert len(text) < 400
    assert text.startswith(f"{folder / name}:{number}  ")
    return text.split("  ", 1)[1]


@pytest.mark.parametrize("name", ["results.jsonl", "cases.jsonl"])
@pytest.mark.parametrize(
    "line",
    [
        b"", b"{", b"[]", b"null", b"7", b'"text"', b"{}", b"\xff\xfe", b"\x00", b"[" * 100_000,
        b"9" * 100_000,
        b'{"id": 1, "case": 2}', b'{"case_id": []}', (b'{"id": "x", "case": {"operator": "exp", '
        b'"dtype": "float32"}}'),
    ],
    ids=lambda line: repr(line[:12]),
)  # fmt: skip
def test_a_damaged_line_is_named_by_file_and_line(
    whole: engine.Run, tmp_path: Path, name: str, line: bytes
) -> None:
    damaged(whole, tmp_path / "b", name, 2, line)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("verdict", "perfect"), ("verdict", []), ("metrics", {"rho_max": "large"}), ("metrics",
        {"rho_max": 10**400}),
        ("metrics", []), ("worst", {"index": [math.inf]}), ("worst", 3), ("shapes", 3),
        ("comparison", {}),
        ("comparison", {"status": "ok", "outputs": 3}), ("comparison", {"status": "ok",
        "outputs": [{"spans": [{"range": [1]}]}]}),
        ("case_id", "exp-0000000000"),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_a_damaged_value_is_named_by_file_and_line(
    whole: engine.Run, tmp_path: Path, key: str, value: Any
) -> None:
    row = json.loads(
        (folder_of(whole) / "results.jsonl").read_text(encoding="utf-8").splitlines()[1]
    )
    text = damaged(
        whole, tmp_path / "b", "results.jsonl", 2, json.dumps(row | {key: value}).encode()
    )
    assert text.startswith("damaged: ")


def test_a_key_that_is_missing_is_named(
    snapshot: Snapshot, whole: engine.Run, tmp_path: Path
) -> None:
    row = json.loads(
        (folder_of(whole) / "results.jsonl").read_text(encoding="utf-8").splitlines()[1]
    )
    del row["explanation"]
    snapshot(damaged(whole, tmp_path / "b", "results.jsonl", 2, json.dumps(row).encode()))


def test_a_huge_line_is_not_read(
    snapshot: Snapshot, whole: engine.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_LINE", 10_000)
    line = b'{"x": "' + b"x" * 20_000 + b'"}'
    snapshot(damaged(whole, tmp_path / "b", "results.jsonl", 3, line))


def test_another_format_or_no_bundle_at_all(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"is not a bundle: it has no bundle\.json"):
        bundle.read_results(tmp_path)
    for text, words in (
        ('{"format": 99, "settings": {}}', (r"has format 99; this version \(\S+\) reads formats 1 "
        r"to 2")),
        ("{}", "has format None"), ("nonsense", "cannot be read: "), ("[" * 100_000,
        "cannot be read: "),
    ):  # fmt: skip
        (tmp_path / "bundle.json").write_text(text, encoding="utf-8")
        with pytest.raises(BundleError, match=words):
            bundle.read_header(tmp_path)


def test_a_bundle_without_results_has_none(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_text('{"format": 1, "settings": {}}', encoding="utf-8")
    assert bundle.read_results(tmp_path) == []


NASTY = [
    "../../x", "/etc/x", "C:\\x", "\\\\server\\x", "a\x00b", "CON", "nul.txt", "x" * 5000, "..",
    ".", "x.", "x ", "é/☃", "\ud800",
    "a:b", "$(x)",
]  # fmt: skip
WINDOWS = {"CON", "PRN", "AUX", "NUL"} | {
    f"{port}{i}" for port in ("COM", "LPT") for i in range(10)
}


def is_portable(name: str) -> bool:
    """One component that Windows and every other system takes as it is."""
    plain = re.fullmatch(r"[A-Za-z0-9._-]{1,130}", name) is not None
    return (
        plain
        and name[0] not in ".-"
        and name[-1] not in ". "
        and PureWindowsPath(name).stem.split(".")[0].upper() not in WINDOWS
    )


@given(st.one_of(st.sampled_from(NASTY), st.text()), st.one_of(st.sampled_from(NASTY), st.text()))
def test_folder_names_are_portable(operator: str, backend: str) -> None:
    case = Case("exp", "float32")
    object.__setattr__(case, "id", f"{operator}-0123456789")
    assert is_portable(bundle.failure_id(result(case=case, backend=backend)))


def test_two_failures_never_share_a_folder() -> None:
    backends = [
        "a b", "a_b", "a/b", "a:1", "a+b", "a+b=c", "a+b+c", "A", "a", "é", "è", "x" * 200,
        "x" * 201,
    ]  # fmt: skip
    names = {
        bundle.failure_id(result(backend=b, direction=d)).lower()
        for b in backends
        for d in ("forward", "backward")
    }
    assert len(names) == 2 * len(backends)
    assert bundle.failure_id(result(backend="cuda:1+tf32")).endswith("-cuda_1_tf32-forward")
    softmax = Case("nn.functional.log_softmax", "float32")
    assert (
        bundle.failure_id(result(case=softmax, backend="cpu+onednn=off"))
        == f"{softmax.id}-cpu_onednn-off-forward"
    )


@pytest.mark.parametrize("name", NASTY, ids=lambda name: repr(name[:12]))
def test_nothing_is_written_outside_the_folder(tmp_path: Path, name: str) -> None:
    """Whatever an operator or a backend is called."""
    inside = tmp_path / "b"
    case = Case(name, "float32", (TensorRecipe((3,), "float32", stop=5),))
    written(
        inside, result(case=case, backend=name, explanation=f"\x1b{name}\n"), result(backend=name)
    )
    assert {path.name for path in tmp_path.iterdir()} == {"b"}
    failures = list((inside / "failures").iterdir())
    assert len(failures) == 2
    assert all(is_portable(path.name) for path in failures)


def test_a_hostile_id_is_refused(snapshot: Snapshot, whole: engine.Run, tmp_path: Path) -> None:
    row = json.loads((folder_of(whole) / "cases.jsonl").read_text(encoding="utf-8").splitlines()[0])
    text = damaged(
        whole, tmp_path / "b", "cases.jsonl", 1, json.dumps(row | {"id": "../../x"}).encode()
    )
    snapshot(text.replace(row["id"], "exp-0123456789"))


def test_an_artifact_that_cannot_be_made_does_not_end_the_run(tmp_path: Path) -> None:
    case = Case("exp", "float32", (TensorRecipe((3,), "nonsense", stop=5),))
    (back,) = written(tmp_path / "b", result(case=case))
    assert back.verdict.value == "divergent"
    (folder,) = (tmp_path / "b" / "failures").iterdir()
    assert "no tensors: " in (folder / "tensors.txt").read_text(encoding="utf-8")


# --- packed


def test_a_packed_bundle_is_read_as_before_and_can_be_resumed(
    whole: engine.Run, tmp_path: Path
) -> None:
    here = copy_of(whole, tmp_path / "b")
    plain = {name: (here / name).read_bytes() for name in FILES}
    said = command("pack {} --keep 1", tmp_path)
    assert (said.exit_code, said.output) == (0, "packed 0 of 1 bundles: 0.0 kB are 0.0 kB now\n")
    said = command("pack", tmp_path)
    assert said.exit_code == 0
    assert said.output.startswith("packed 1 of 1 bundles: ")
    assert sum((here / f"{name}.gz").stat().st_size for name in FILES) * 3 < sum(
        map(len, plain.values())
    )
    assert not any((here / name).exists() for name in (*FILES, "running.lock"))
    assert bundle.read_results(here) == bundle.read_results(folder_of(whole))
    for words in (
        ["diff", str(folder_of(whole)), str(here)],
        ["report", str(here)],
        ["query", "SELECT 1 AS one", str(here)],
    ):
        assert command(*words).exit_code == 0, words
    assert command("pack", here).output.startswith("packed 0 of 1")
    consistency.run(**ARGUMENTS, out=here, resume=True)
    assert {name: (here / name).read_bytes() for name in FILES} == plain
    assert not list(here.glob("*.gz"))


def test_packing_leaves_alone_what_is_being_written(whole: engine.Run, tmp_path: Path) -> None:
    here = copy_of(whole, tmp_path / "b")
    lock = Lock(here)
    said = command("pack", here)
    lock.release()
    assert said.exit_code == 0
    assert "is being written by another run" in said.stderr
    assert said.stdout.startswith("packed 0 of 1")
    assert (here / "results.jsonl").exists()


def test_packing_passes_over_what_holds_no_lines(whole: engine.Run, tmp_path: Path) -> None:
    """A file with gigabytes of nothing is not read to its end, and is left as it is."""
    here = copy_of(whole, tmp_path / "b")
    (here / "cases.jsonl").write_bytes(b" " * (reading.MAX_LINE + 1) + b"\n")
    said = command("pack", here)
    assert said.exit_code == 0
    assert "cases.jsonl  line longer than" in said.stderr
    assert (here / "cases.jsonl").stat().st_size > reading.MAX_LINE
    assert not (here / "cases.jsonl.gz").exists()


@pytest.mark.parametrize("moment", ["half written", "both are there"])
def test_a_kill_while_packing_costs_nothing(
    moment: str, whole: engine.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, unlink, write = copy_of(whole, tmp_path / "b"), Path.unlink, gzip.GzipFile.write

    def write_half(file: gzip.GzipFile, data: bytes) -> None:
        write(file, data[: len(data) // 2])
        raise Killed

    def leave(path: Path, missing_ok: bool = False) -> None:
        if path.name == "results.jsonl":
            raise Killed
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(
            *(
                (gzip.GzipFile, "write", write_half)
                if moment == "half written"
                else (Path, "unlink", leave)
            )
        )
        with pytest.raises(Killed):
            pack(here)
    for _ in range(2):
        assert bundle.read_results(here) == bundle.read_results(folder_of(whole))
        pack(here)
    assert not (here / "results.jsonl").exists()


def test_of_two_copies_the_longer_one_is_taken_packed_or_not(
    whole: engine.Run, tmp_path: Path
) -> None:
    part, all_of_it = copy_of(whole, tmp_path / "a"), copy_of(whole, tmp_path / "b")
    results = part / "results.jsonl"
    results.write_bytes(b"".join(results.read_bytes().splitlines(keepends=True)[:-3]))
    assert pack(all_of_it)[0] > 0
    assert [one.folder for one in bundle.gather([tmp_path])[0]] == [all_of_it]


def bomb(packed: bytes) -> bytes:
    """The same and eight results in much white space: a thousand times what the file has."""
    line = gzip.decompress(packed).splitlines()[0] + b" " * (1 << 20) + b"\n"
    return packed + gzip.compress(line * 8)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda b: b[:-40], "cannot be read: "), (lambda b: b[:200] + b"xx" + b[202:],
        "(:\\d+  damaged|cannot be read): "),
        (lambda b: b"{}", "cannot be read: Not a gzipped file"), (bomb, ("is more than 80 times "
        "as large once it is unpacked")),
    ],
)  # fmt: skip
def test_a_damaged_packed_file_is_one_line(
    damage: Callable[[bytes], bytes],
    told: str,
    whole: engine.Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "_FREE", 1 << 20)
    here = copy_of(whole, tmp_path / "b")
    pack(here)
    packed = here / "results.jsonl.gz"
    packed.write_bytes(damage(packed.read_bytes()))
    said = command("diff", here, here)
    assert said.exit_code == 2
    assert re.fullmatch(rf"consistency: \S+results\.jsonl\S* ?{told}.*\n", said.output)
    with pytest.raises(BundleError, match=told):
        consistency.run(**ARGUMENTS, out=here, resume=True)
    assert not (here / "results.jsonl").exists()


def test_a_case_without_an_id_is_told_even_where_only_others_are_wanted(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_text('{"case": {}}\n', encoding="utf-8")
    with pytest.raises(BundleError, match=r"cases.jsonl:1  damaged: a case has no id"):
        list(read_cases(tmp_path, {"exp-1"}))


def test_a_file_beside_a_kept_case_names_the_case(tmp_path: Path) -> None:
    from consistency.storage.lookup import find

    with pytest.raises(consistency.Divergence) as error:
        consistency.assert_consistent(
            torch.exp, torch.ones(3), backends=[TimesTwo()], directions="forward"
        )
    (result,) = error.value.results
    folder = consistency.save(result, tmp_path / "kept")  # type: ignore[arg-type]
    for name in ("repro.py", "issue.md", "message.txt"):
        found = find(str(folder / name))
        assert (found.case, found.spec) == (find(str(folder)).case, find(str(folder)).spec)


class TimesTwo(consistency.Backend):
    name = "times-two"

    def call(self, operator: consistency.Operator, args: Any, kwargs: Any) -> Any:
        return operator(*args, **kwargs) * 2
