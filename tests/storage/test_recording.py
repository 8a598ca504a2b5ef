"""Recordings: what comes out of a folder is what went in, bit by bit, whatever the dtype; and a
damaged one is one clear line."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

import consistency
from consistency.cli.main import main
from consistency.core.model import Case, Outcome, Output
from consistency.core.recipe import DType, Literal, TensorRecipe
from consistency.engine import engine, record
from consistency.engine.events import Judged
from consistency.engine.judge_recordings import events, plan
from consistency.errors import BundleError
from consistency.generate.materialize import prepare
from consistency.storage.cases import read_cases
from consistency.storage.recording import tensors
from consistency.storage.recording.header import CORPUS, RECORDING, Header
from consistency.storage.recording.reading import Recording
from consistency.storage.recording.writing import RecordingWriter
from tests.support.commands import command
from tests.support.paths import ROOT

CASE = Case("exp", "float32", (TensorRecipe((4,), "float32", ("uniform", -1.0, 1.0), 100),))
DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8,
    torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.uint16,
]  # fmt: skip


def bits(tensor: torch.Tensor) -> bytes:
    return (
        tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        if tensor.numel()
        else b""
    )


def any_bits(dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """Every bit pattern is a number, a NaN with a payload, an infinity …"""
    size = torch.empty(0, dtype=dtype).element_size()
    raw = (
        torch.arange(math.prod(shape) * size, dtype=torch.int64)
        .mul(37)
        .add(11)
        .remainder(256)
        .to(torch.uint8)
    )
    raw = raw.remainder(2) if dtype == torch.bool else raw
    return raw.view(dtype).reshape(shape)


def written(folder: Path, outcome: Outcome, name: str = "one", **more: Any) -> Recording:
    writer = RecordingWriter(folder, Header(RECORDING, "mine", {"device": "here"}))
    writer.case(CASE, ["forward"])
    writer.outcome(name, CASE, "forward", outcome, **more)
    writer.finish()
    writer.close()
    return Recording(folder)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (2, 3, 5)], ids=str)
def test_every_bit_of_every_dtype_comes_back(
    dtype: torch.dtype, shape: tuple[int, ...], tmp_path: Path
) -> None:
    given = any_bits(dtype, shape)
    strided = any_bits(dtype, (*shape, 2))[..., 1]
    outputs = (Output("out/0", given, "", "privateuseone:0"), Output("out/1", strided, ""))
    recording = written(tmp_path / "r", Outcome("ok", outputs))
    found = recording.outcome(recording.rows[0]).outputs
    for sent, got in zip(outputs, found, strict=True):
        assert sent.tensor is not None
        assert got.tensor is not None
        assert (got.tensor.dtype, got.tensor.shape, got.device) == (
            sent.tensor.dtype,
            sent.tensor.shape,
            sent.device,
        )
        assert bits(got.tensor) == bits(sent.tensor)


@pytest.mark.parametrize(
    "value", [None, True, 3, -2.5, math.inf, math.nan, "text", [1, 2.0], (1, None)], ids=repr
)
def test_values_that_are_no_tensors_come_back(value: Any, tmp_path: Path) -> None:
    recording = written(tmp_path / "r", Outcome("ok", (Output("out/0", None, value=value),)))
    found = recording.outcome(recording.rows[0]).outputs[0].value
    assert found == value or (found != found and value != value)
    assert type(found) is type(value)


def test_everything_else_about_an_outcome_comes_back(tmp_path: Path) -> None:
    outcome = Outcome(
        "raised",
        (),
        "RuntimeError",
        "no",
        ("first", "second"),
        (1, 2),
        0.25,
        "others gave other bits",
    )
    recording = written(
        tmp_path / "r", outcome, "an id / of any kind", configuration="float64", problem="why"
    )
    (row,) = recording.rows
    assert recording.outcome(row) == outcome
    assert (row.id, row.configuration, row.problem) == ("an id / of any kind", "float64", "why")
    assert (recording.header.backend, recording.header.environment, recording.header.complete) == (
        "mine",
        {"device": "here"},
        True,
    )


def test_a_case_with_literal_cotangents_and_a_chain_of_views_is_one_line() -> None:
    base = torch.arange(40.0).reshape(5, 8)
    view = base[1:4][:, ::2]
    steps = (("slice", 0, 1, 4, None), ("slice", 1, None, None, 2))
    strided = (tuple(view.shape), view.stride(), view.storage_offset())
    x = Literal(bits(base), "float32", *strided, base=(5, 8), view=steps)
    against = Literal(bits(torch.tensor([1.0, -2.0, 3.0])), "float32", (3,), (1,))
    case = Case("sum", "float32", (x, 1), {}, 0, "call/torch.sum", (against,))
    again = Case.from_line(case.line, {x.digest: x.data})
    assert again == case
    arguments = prepare(again).build(gradients=True)
    assert torch.equal(arguments.tensors[0], view)
    assert arguments.tensors[0].storage_offset() == view.storage_offset()
    outcome = consistency.Backend().run(consistency_operator(case), prepare(again), "backward")
    assert outcome.outputs[0].tensor is not None
    assert torch.equal(outcome.outputs[0].tensor, torch.tensor([[1.0], [-2.0], [3.0]]).expand(3, 4))
    wrong = Literal(bits(base), "float32", (3, 4), (8, 1), 8, base=(5, 8), view=steps)
    with pytest.raises(consistency.RecipeError, match="leads to another shape"):
        prepare(Case("sum", "float32", (wrong,))).build()


def consistency_operator(case: Case) -> consistency.Operator:
    from consistency.generate.calls.case_operator import operator_of

    return operator_of(case)


@pytest.mark.parametrize(
    "name",
    ["torch.os.system", "torch.load", "torch.hub.load", "os.system", "builtins.eval",
    "operator.methodcaller", "torch.from_file",
     "Tensor.apply_", "Tensor.__reduce_ex__", "Tensor.__class__", "torch.save", "torch", "",
     "torch.nn.functional.torch"],
)  # fmt: skip
def test_a_recording_calls_functions_of_tensors_only(name: str) -> None:
    case = Case("x", "float32", (1,), source=f"call/{name}")
    with pytest.raises(consistency.UsageError, match="that a recording may call"):
        consistency_operator(case)


class Counting(consistency.Backend):
    """The CPU; counts its calls, and can stop as a user would."""

    name = "counting"

    def __init__(self, stop_at: int = 10**9) -> None:
        self.calls, self.stop_at = 0, stop_at

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        self.calls += 1
        if self.calls == self.stop_at:
            raise KeyboardInterrupt
        return super().call(operator, args, kwargs)


def corpus(folder: Path, **more: Any) -> Path:
    chosen = {
        "operators": ["exp", "mv", "add_", "nn.functional.conv2d"],
        "dtypes": ["float32", "int64"],
        "examples": 4,
    } | more
    assert consistency.record(**chosen, out=folder) > 20  # type: ignore[arg-type]
    return folder


def outcomes(folder: Path) -> dict[str, tuple[str, list[bytes]]]:
    recording = Recording(folder)
    found = {}
    for row in recording.rows:
        outcome = recording.outcome(row)
        found[row.id] = (
            outcome.status,
            [bits(o.tensor) for o in outcome.outputs if o.tensor is not None],
        )
    return found


def test_recorded_in_one_step_or_from_a_corpus_or_from_its_literal_tensors(tmp_path: Path) -> None:
    recipes, literal = corpus(tmp_path / "c"), corpus(tmp_path / "l", literal=True)
    first = consistency.record(backend="cpu", corpus=recipes, out=tmp_path / "a")
    arguments: dict[str, Any] = {
        "operators": ["exp", "mv", "add_", "nn.functional.conv2d"],
        "dtypes": ["float32", "int64"],
    }
    assert consistency.record(**arguments, examples=4, backend="cpu", out=tmp_path / "b") == first
    assert consistency.record(backend="cpu", corpus=literal, out=tmp_path / "d") == first
    a, b, d = outcomes(tmp_path / "a"), outcomes(tmp_path / "b"), outcomes(tmp_path / "d")
    assert a == b
    assert list(a.values()) == list(
        d.values()
    )  # their cases are other cases, with the same numbers
    assert all(isinstance(t, Literal) for entry in read_cases(literal) for t in entry.case.tensors)
    assert any(t.view for entry in read_cases(literal) for t in entry.case.tensors)
    run = consistency.judge_recordings([tmp_path / "a", tmp_path / "d"])
    assert not run.failures
    assert sum(r.verdict.passes for r in run.results) > 40


@pytest.mark.parametrize("stop_at", [1, 7, 15])
def test_an_interrupted_recording_is_completed_and_nothing_is_run_twice(
    stop_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "MOST_PENDING", 4)
    cases, folder = corpus(tmp_path / "c"), tmp_path / "r"
    count = consistency.record(backend=Counting(), corpus=cases, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        consistency.record(backend=Counting(stop_at), corpus=cases, out=folder)
    assert len(Recording(folder).rows) == stop_at - 1
    with pytest.raises(BundleError, match="already holds a recording; add --resume"):
        consistency.record(backend=Counting(), corpus=cases, out=folder)
    with (folder / "outcomes.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"id": "half a li')  # a kill in the middle of a line …
    orphan = (
        folder / "tensors" / "pending-000099.safetensors"
    )  # … or between the tensors and their line
    tensors._save(orphan, {"nobody/out/0": torch.ones(3)})
    (folder / "tensors" / "shard-000007.tmp").write_bytes(b"half")
    again = Counting()
    assert consistency.record(backend=again, corpus=cases, out=folder, resume=True) == count
    assert again.calls == count - (stop_at - 1)
    assert outcomes(folder) == outcomes(tmp_path / "whole")
    assert {p.name[:5] for p in (folder / "tensors").iterdir()} == {"shard"}
    assert Recording(folder).header.complete
    with pytest.raises(BundleError, match="begun with other settings"):
        consistency.record(["exp"], backend=Counting(), out=folder, resume=True)
    with pytest.raises(BundleError, match="begun with other backend"):
        consistency.record(backend="cpu", corpus=cases, out=folder, resume=True)


def test_tensors_are_in_files_of_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "SHARD_BYTES", 1 << 14)
    writer = RecordingWriter(tmp_path, Header(RECORDING, "mine"))
    writer.case(CASE, ["forward"])
    for i in range(20):
        writer.outcome(
            f"{i}",
            CASE,
            "forward",
            Outcome("ok", (Output("out/0", torch.full((1000,), float(i)), "float32"),)),
        )
    writer.close()
    sizes = [path.stat().st_size for path in (tmp_path / "tensors").iterdir()]
    assert len(sizes) >= 5
    assert max(sizes) < 3 << 14
    recording = Recording(tmp_path)
    assert [float(recording.outcome(row).outputs[0].tensor[0]) for row in recording.rows] == [
        float(i) for i in range(20)
    ]  # type: ignore[index]


def test_recordings_side_by_side_are_judged_case_by_case(tmp_path: Path) -> None:
    cases = corpus(tmp_path / "c")
    for name in "ab":
        consistency.record(backend=Counting(), corpus=cases, out=tmp_path / name)
    consistency.record(backend="numpy", corpus=cases, out=tmp_path / "n")
    planned = plan([tmp_path / name for name in "abn"], ["exp"])
    assert [b.name for b in planned.config.backends] == ["counting", "counting#2", "numpy"]
    judged = [event for event in events(planned) if isinstance(event, Judged)]
    assert all(
        [r.backend for r in event.results] == ["counting", "counting#2", "numpy"]
        for event in judged
    )
    keys = [r.key for event in judged for r in event.results]
    assert len(keys) == len(set(keys)) == 3 * len(judged)
    assert {r.recorded_id for event in judged for r in event.results} == {
        f"{e.case.id}/{e.results[0].direction}" for e in judged
    }
    planned.close()


LYING = """
import consistency
class Lying(consistency.Backend):
    name = "directml"
    def call(self, operator, args, kwargs):
        if operator.name == "add_":
            written = args[0].clone().add_(*args[1:], **kwargs)
            return written if args[0].storage_offset() else args[0]
        if operator.name == "matmul":
            raise RuntimeError("The GPU device does not support Double (Float64) operations!")
        return super().call(operator, args, kwargs)
"""


@pytest.mark.nightly
def test_what_was_recorded_of_a_lying_backend_is_found_out_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "lying.py").write_text(LYING, encoding="utf-8")
    cases = corpus(tmp_path / "c", directions=["forward"])
    done = process(
        ["record", "--backend", f"{tmp_path / 'lying.py'}:Lying", "--corpus", "c", "-o", "r"],
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "outcomes in r (" in done.stdout
    judged = process(["judge", "r", "--json", "rows.jsonl", "--out", "bundle"], tmp_path)
    assert judged.returncode == 1, judged.stderr
    assert "again:   consistency judge r --id add_-" in judged.stdout
    rows = [
        json.loads(line)
        for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert len(rows) == sum(len(entry.directions) for entry in read_cases(cases))
    assert {r["verdict"] for r in rows if r["operator"] == "matmul"} == {"unsupported"}
    failing = [r for r in rows if r["fails"]]
    assert {r["operator"] for r in failing} == {"add_"}
    # Where the numbers happen to be right, that another tensor is returned shows it.
    causes = {r["verdict"]: r.get("cause") for r in failing}
    assert causes.pop("structure", None) is None
    assert set(causes.values()) == {"lost-write"}
    assert all(r["recorded_id"] == f"{r['case_id']}/{r['direction']}" for r in rows)
    from consistency.storage.bundle import read_results

    assert {r.recorded_id for r in read_results(tmp_path / "bundle")} == {
        r["recorded_id"] for r in rows
    }
    one = failing[0]["recorded_id"]
    again = process(["judge", "r", "--id", one, "--json", "-"], tmp_path)
    assert [json.loads(line)["recorded_id"] for line in again.stdout.splitlines()] == [one]
    tolerant = tmp_path / "tolerant.yaml"
    tolerant.write_text(
        "extends: packaged\nexpectations:\n  - {operator: add_, backend: directml, verdicts: "
        "[divergent, special-values, structure], "
        "reason: known, ticket: 'https://example.org/1', since: 2026-01-01, expires: 2099-01-01}\n",
        encoding="utf-8",
    )
    assert process(["judge", "r", "--tolerances", "tolerant.yaml"], tmp_path).returncode == 0


def process(arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-m", "consistency", *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=170,
    )


@pytest.mark.nightly
@pytest.mark.skipif(os.name == "nt", reason="signals to one process are POSIX's")
def test_a_killed_process_leaves_a_recording_that_can_be_read_and_completed(tmp_path: Path) -> None:
    cases = corpus(tmp_path / "c", examples=20)
    (tmp_path / "slow.py").write_text(
        "import consistency, os, time\nclass Slow(consistency.Backend):\n    name = 'slow'\n    "
        "def call(self, o, a, k):\n"
        "        time.sleep(float(os.environ.get('SLOW', '0')))\n        return super().call(o, "
        "a, k)\n",
        encoding="utf-8",
    )
    command = [
        sys.executable, "-m", "consistency", "record", "--backend", "slow.py:Slow", "--corpus", "c",
        "-o", "r",
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(ROOT), "SLOW": "0.1"}
    child = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        path = tmp_path / "r" / "outcomes.jsonl"
        while time.monotonic() < deadline and not (
            path.exists() and path.read_bytes().count(b"\n") >= 5
        ):
            time.sleep(0.05)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    there = len(Recording(tmp_path / "r").rows)
    total = sum(len(entry.directions) for entry in read_cases(cases))
    assert 5 <= there < total
    assert not consistency.judge_recordings(tmp_path / "r").failures
    assert (
        process(
            ["record", "--backend", "slow.py:Slow", "--corpus", "c", "-o", "r", "--resume"],
            tmp_path,
        ).returncode
        == 0
    )
    assert len({row.id for row in Recording(tmp_path / "r").rows}) == total


# Damage. Each kind is one line that names the file (and the line), and exit status 2.


def edited(path: Path, change: Callable[[dict[str, Any]], Any], line: int = 0) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    data = json.loads(lines[line])
    change(data)
    lines[line] = json.dumps(data)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def case_line(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: edited(folder / "cases.jsonl", lambda row: row.update(changes))


def tensor_line(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: edited(
        folder / "cases.jsonl", lambda row: row["case"]["args"][0]["tensor"].update(changes)
    )


def twice(folder: Path) -> None:
    (folder / "outcomes.jsonl").write_bytes(2 * (folder / "outcomes.jsonl").read_bytes())


def outcome_line(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: edited(folder / "outcomes.jsonl", lambda row: row.update(changes))


def output_line(**changes: Any) -> Callable[[Path], None]:
    return lambda folder: edited(
        folder / "outcomes.jsonl", lambda row: row["outputs"][0].update(changes)
    )


def header(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "recording.json"
        path.write_text(
            json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8"
        )

    return change


def text(name: str, content: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(content, encoding="utf-8") and None


def shard(content: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = next((folder / "tensors").iterdir())
        path.write_bytes(content(path.read_bytes()))

    return change


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no header": (lambda f: (f / "recording.json").unlink(),
    "is not a recording: it has no recording.json"),
    "header no JSON": (text("recording.json", "{"), r"recording\.json cannot be read"),
    "header a list": (text("recording.json", "[]"),
    r"recording\.json does not describe a recording"),
    "other format": (header(format=99), r"has format 99; this version \(0.1.0\) reads format 1"),
    "a corpus": (header(kind=CORPUS), "is a corpus: it has cases, but no outcomes"),
    "no backend": (header(backend=""), "does not say which backend"),
    "backend a list": (header(backend=[]), r"backend is \[\]; expected is a text"),
    "environment a list": (header(environment=[]), r"environment is \[\]; expected is an object"),
    "case no JSON": (text("cases.jsonl", "{\n"), r"cases\.jsonl:1  damaged"),
    "case under another id": (case_line(id="exp-0000000000"),
    r"cases\.jsonl:1  damaged: case exp-\w+ is filed"),
    "no case": (text("cases.jsonl", ""), r"outcomes\.jsonl:1  damaged: cases\.jsonl has no case"),
    "unknown direction of a case": (case_line(directions=["sideways"]),
    r"cases\.jsonl:1  damaged: its directions"),
    "a huge recipe": (tensor_line(base=[1 << 40]), r"cases\.jsonl:1  shape"),
    "outcome no JSON": (text("outcomes.jsonl", "nonsense\n"), r"outcomes\.jsonl:1  damaged"),
    "outcome a list": (text("outcomes.jsonl", "[]\n"),
    r"outcomes\.jsonl:1  damaged: not an object"),
    "no outcome": (text("outcomes.jsonl", ""), "holds no outcome to judge"),
    "outcome without id": (text("outcomes.jsonl", "{}\n"),
    r"outcomes\.jsonl:1  damaged: it has no 'id'"),
    "id a number": (outcome_line(id=7), r"outcomes\.jsonl:1  damaged: 'id' is no text"),
    "unknown status": (outcome_line(status="fine"),
    r"outcomes\.jsonl:1  damaged: its status is 'fine'"),
    "unknown direction": (outcome_line(direction="up"),
    r"outcomes\.jsonl:1  damaged: direction 'up'"),
    "outputs no list": (outcome_line(outputs=3), r"outcomes\.jsonl:1  damaged: its outputs"),
    "output a number": (outcome_line(outputs=[3]), r"outcomes\.jsonl:1  damaged"),
    "seconds text": (outcome_line(seconds="soon"), r"outcomes\.jsonl:1  damaged: ValueError"),
    "warnings a number": (outcome_line(warnings=1), r"outcomes\.jsonl:1  damaged: TypeError"),
    "twice": (twice, r"outcomes\.jsonl:2  damaged: the id"),
    "unknown dtype": (output_line(dtype="float31"), (r"outcomes\.jsonl:1  damaged: out/0 has the "
    r"dtype 'float31'")),
    "dtype that is none": (output_line(dtype="load"), (r"outcomes\.jsonl:1  damaged: out/0 has "
    r"the dtype 'load'")),
    "another dtype": (output_line(dtype="int64"), (r"shard-000000\.safetensors cannot be read: it "
    r"is stored as")),
    "another shape": (output_line(shape=[5]), r"has shape \[4\], not what its outcome says"),
    "a huge shape": (output_line(shape=[1 << 50]),
    r"outcomes\.jsonl:1  damaged: RecipeError shape"),
    "no such tensor": (output_line(key="other"), (r"outcomes\.jsonl:1  no file of the recording "
    r"holds the tensor 'other'")),
    "key a path": (output_line(key="../../etc/passwd"), (r"outcomes\.jsonl:1  no file of the "
    r"recording holds")),
    "a value that is none": (outcome_line(outputs=[{"name": "out/0", "value": {"what": 1}}]),
    r"outcomes\.jsonl:1  damaged"),
    "shard cut short": (shard(lambda data: data[:-4]), r"shard-000000\.safetensors cannot be read"),
    "shard empty": (shard(lambda data: b""), r"shard-000000\.safetensors cannot be read"),
    "shard nonsense": (shard(lambda data: b"\xff" * 64),
    r"shard-000000\.safetensors cannot be read"),
    "shards gone": (lambda f: next((f / "tensors").iterdir()).unlink(), (r"outcomes\.jsonl:1  no "
    r"file of the recording holds")),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_recording_is_one_line_and_exit_status_2(kind: str, tmp_path: Path) -> None:
    damage, expected = DAMAGE[kind]
    folder = tmp_path / "r"
    written(folder, Outcome("ok", (Output("out/0", torch.ones(4), "float32"),))).close()
    damage(folder)
    result = command("judge", folder)
    assert result.exit_code == 2, result.output
    (line,) = [line for line in result.output.splitlines() if "consistency: " in line]
    assert re.search(expected, line), line
    assert "Traceback" not in result.output


@pytest.mark.parametrize(("arguments", "status", "expected"), [
    ("record exp", 2, "missing option '--out'"),
    ("record exp -o r --backend cpu --backend numpy", 2, "a recording is of one backend"),
    ("record exp --corpus c -o r --backend cpu", 2,
        "--corpus says which cases to run: leave OPERATOR out"),
    ("record --corpus c -o r", 2, "--corpus needs the --backend"),
    ("record --corpus c -o r --backend cpu", 2, "c is not a recording: there is no such folder"),
    ("record exp -o r --backend cpu --literal", 2, "--literal is for a corpus"),
    ("record exq -o r", 2, "did you mean eq or exp?"),
    ("record exp -o r --profile slow", 2, "unknown profile 'slow'"),
    ("record exp -o r --backend cuda:99", 3, "cannot run here"),
    ("judge nowhere", 2, "nowhere is not a recording"),
    ("judge", 2, "missing argument"),
])  # fmt: skip
def test_usage(
    arguments: str, status: int, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, arguments.split())
    assert (result.exit_code, expected in result.output) == (status, True), result.output


def test_operators_and_ids_that_were_not_recorded(tmp_path: Path) -> None:
    written(tmp_path / "r", Outcome("ok", (Output("out/0", torch.ones(4), "float32"),))).close()
    unknown = command("judge {} matmul", tmp_path / "r")
    assert (unknown.exit_code, "there is no operator 'matmul'" in unknown.output) == (2, True), (
        unknown.output
    )
    missing = command("judge {} --id two", tmp_path / "r")
    assert (missing.exit_code, "no outcome 'two'" in missing.output) == (2, True), missing.output


def test_an_outcome_that_cannot_have_a_reference_still_has_a_verdict(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path, Header(RECORDING, "mine"))
    unknown = Case("x", "float32", (), source="call/torch.no_such_function")
    tensor = Output("out/0", torch.ones(4), "float32")
    said = {
        "a": (Outcome("ok", (tensor,)), "inconclusive"), "b": (Outcome("raised", (), "E", "no"),
        "inconclusive"),
        "c": (Outcome("crash", message="SIGSEGV"), "crash"), "d": (Outcome("timeout",
        message="30 s"), "timeout"),
        "e": (Outcome("unsupported", message="no"), "unsupported"),
    }  # fmt: skip
    writer.case(unknown, ["forward"])
    writer.case(CASE, ["forward"])
    for name, (outcome, _) in said.items():
        writer.outcome(name, unknown, "forward", outcome)
        writer.outcome(f"{name}2", CASE, "forward", outcome, problem="the format does not say")
    writer.close()
    found = {r.recorded_id: r.verdict.value for r in consistency.judge_recordings(tmp_path).results}
    assert found == {
        name + more: verdict for name, (_, verdict) in said.items() for more in ("", "2")
    }


def test_a_call_that_the_recording_torch_lacks_is_not_tested_whoever_recorded_it(
    tmp_path: Path,
) -> None:
    """An earlier version of the recorder knew fewer of these messages, and called it raised."""
    lacks = "mean() received an invalid combination of arguments - got (Tensor, out=Tensor), but"
    for text, verdict in ((lacks, "unsupported"), ("mean() got 3 tensors", "error")):
        writer = RecordingWriter(tmp_path / verdict, Header(RECORDING, "mine"))
        writer.case(CASE, ["forward"])
        writer.outcome("a", CASE, "forward", Outcome("raised", (), "TypeError", text))
        writer.close()
        (result,) = consistency.judge_recordings(tmp_path / verdict).results
        assert result.verdict.value == verdict


def test_the_settings_of_a_judgment_name_what_was_recorded(tmp_path: Path) -> None:
    written(tmp_path / "r", Outcome("ok", (Output("out/0", torch.ones(4), "float32"),))).close()
    run = consistency.judge_recordings(tmp_path / "r")
    assert isinstance(run, engine.Run)
    assert [o.name for o in run.config.operators] == ["exp"]
    assert [r.verdict.value for r in run.results] == ["divergent"]
    assert [
        taken.case
        for taken in record.write_corpus(
            engine.configure(["exp"], ["cpu"], examples=1), tmp_path / "c"
        )
    ]


@pytest.mark.nightly
def test_the_cases_of_a_recording_are_a_corpus_for_another_backend(tmp_path: Path) -> None:
    """Calls with literal tensors and literal cotangents, in this process and in another one."""
    from consistency.storage.recording.import_folder import convert

    convert(ROOT / "tests" / "data" / "directml-recording", tmp_path / "r")
    for spec, name in (("cpu", "here"), ("cpu+isolated", "there")):
        assert consistency.record(backend=spec, corpus=tmp_path / "r", out=tmp_path / name) > 350
    here, there = outcomes(tmp_path / "here"), outcomes(tmp_path / "there")
    assert {key: (status, [len(b) for b in found]) for key, (status, found) in here.items()} == {
        key: (status, [len(b) for b in found]) for key, (status, found) in there.items()
    }
    run = consistency.judge_recordings([tmp_path / "here", tmp_path / "there"])
    # docs/findings.md knows both: fmod by a subnormal, and gelu of infinity.
    assert {r.operator for r in run.failures} <= {"fmod", "nn.functional.gelu"}
    assert sum(r.verdict.passes for r in run.results) > 640


def test_a_sum_in_a_shorter_dtype_may_cast_first_or_last(tmp_path: Path) -> None:
    x = torch.linspace(0.1001, 3.0007, 48).reshape(2, 24)
    literal = Literal(bits(x), "float32", (2, 24), (24, 1))
    case = Case(
        "sum", "float32", (literal, 1), {"dtype": DType("float16")}, source="call/torch.sum"
    )
    writer = RecordingWriter(tmp_path, Header(RECORDING, "mine"))
    writer.case(case, ["forward"])
    first, last = x.half().float().sum(1).half(), x.sum(1).half()
    for name, result in (("first", first), ("last", last), ("neither", last * 1.01)):
        writer.outcome(name, case, "forward", Outcome("ok", (Output("out/0", result, "float16"),)))
    writer.close()
    found = {r.recorded_id: r.verdict.fails for r in consistency.judge_recordings(tmp_path).results}
    assert found == {"first": False, "last": False, "neither": True}
