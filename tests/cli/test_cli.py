"""The command line: what people type, read and copy; exit statuses; one clear line for every
mistake."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.engine import bundle_writer, engine, events
from consistency.engine.run_options import PROFILES
from consistency.storage import bundle, lookup
from tests.support.commands import command
from tests.support.snapshots import Snapshot

COMMANDS = [
    "run", "backends", "operators", "repro", "report", "bisect", "sweep", "explain", "fingerprint",
    "model", "debug", "diff", "expect",
    "matrix", "corpus", "query", "pack", "record", "judge", "calibrate",
]  # fmt: skip
LINE = Case("exp", "float32", (TensorRecipe((3,), "float32", stop=9),)).line

USERS = """
import os, time
import consistency, torch

class Slow(consistency.Backend):
    name = "slow"
    def call(self, operator, args, kwargs):
        time.sleep(float(os.environ.get("SLOW", "0")))
        return super().call(operator, args, kwargs)

class Off(consistency.Backend):
    name = "off"
    def call(self, operator, args, kwargs):
        return super().call(operator, args, kwargs) * 1.001

class Raises(consistency.Backend):
    name = "raises"
    def call(self, operator, args, kwargs):
        raise RuntimeError("no [bold]luck[/bold] \\x1b[31m today")

class Wider(consistency.Backend):
    name = "wider"
    def call(self, operator, args, kwargs):
        return super().call(operator, args, kwargs)[None]

class Absent(consistency.Backend):
    name = "absent"
    def why_unavailable(self):
        return "the cable is not plugged in"
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test in a folder of its own, where bundles under reports/ are nobody else's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "users.py").write_text(USERS, encoding="utf-8")


def cli(line: str, *values: object) -> Result:
    """The command in this process. Whatever it does, it shows no traceback."""
    result = command(line, *values)
    assert isinstance(result.exception, SystemExit | None), result.exception
    assert "Traceback" not in result.output
    return result


def one_line(result: Result, status: int = 2) -> str:
    """The only line of an error, which goes to stderr."""
    assert result.exit_code == status, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


def process(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
        **more,
    )


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- run


def test_a_run_as_a_process() -> None:
    done = process(
        "consistency", "run", "matmul", "exp", "--dtype", "float32", "--examples", "3",
        "--backend", "cpu", "--backend", "numpy",
        "--json", "results.jsonl", "--out", "bundle",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0].startswith("consistency ")
    assert re.fullmatch(
        r"✓ [\d,]+ rounding or exact · .* s    bundle bundle    page .*report.html", lines[-1]
    )

    found = rows(Path("results.jsonl"))
    for row in found:
        assert row.keys() >= {
            "operator",
            "dtype",
            "direction",
            "backend",
            "verdict",
            "explanation",
            "metrics",
            "case",
        }
        assert Case.from_json(row["case"]).id == row["case_id"]
        assert not row["fails"]
    assert {row["operator"] for row in found} == {"matmul", "exp"}
    assert {row["backend"] for row in found} == {"cpu", "numpy"}
    assert {row["direction"] for row in found} == {"forward", "backward"}
    assert any(0.0 < row["metrics"].get("rho_max", 0.0) <= 1.0 for row in found)
    assert len(bundle.read_results("bundle")) == len(found)


def test_the_package_is_a_command_too() -> None:
    done = process(sys.executable, "-m", "consistency", "--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "consistency,")


def test_a_stream_that_cannot_hold_a_tick_ends_nothing() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "cp1252"}
    done = process(sys.executable, "-m", "consistency", "operators", "exp", "log", env=environment)
    assert done.returncode == 0
    assert "<->" in done.stdout


def test_json_on_standard_output_is_nothing_else() -> None:
    result = cli("run neg --examples 2 --dtype float32 --backend cpu --json - --no-bundle")
    assert result.exit_code == 0
    assert all(json.loads(line)["operator"] == "neg" for line in result.stdout.splitlines())
    assert "✓" in result.stderr
    assert not Path("reports").exists()


def test_the_bundle_goes_to_reports_unless_told_otherwise() -> None:
    assert cli("run neg --examples 1 --dtype float32 --backend cpu").exit_code == 0
    (header,) = Path("reports").glob("*/bundle.json")
    assert bundle.read_header(header.parent)["complete"] is True


def test_a_time_budget_is_kept() -> None:
    result = cli("run exp tanh --time-budget 3s --examples 5 --backend cpu --no-bundle")
    assert result.exit_code == 0
    assert "time budget used up" in result.output.splitlines()[-1]


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_leaves_a_bundle_that_can_be_completed() -> None:
    arguments = [
        "run", "exp", "log", "--dtype", "float32", "--backend", "users.py:Slow", "--examples", "30",
        "--out", "b", "--no-shrink",
    ]  # fmt: skip
    running = subprocess.Popen(
        [sys.executable, "-m", "consistency", *arguments], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
        # never done before it is interrupted, however busy the machine is
        env=os.environ | {"SLOW": "0.2"},
        # shells ignore it for what runs behind them
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    results = Path("b/results.jsonl")
    until = time.monotonic() + 60
    while time.monotonic() < until and not (results.exists() and results.stat().st_size > 0):
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    output, errors = running.communicate(timeout=60)
    assert running.returncode == 130, output + errors
    assert "Traceback" not in errors
    assert re.fullmatch(
        r"interrupted after [\d,]+ results; complete it with --resume --out b\n", errors
    )
    before = bundle.read_results("b")
    again = cli(*arguments, "--resume")
    assert again.exit_code == 0, again.output + again.stderr
    after = bundle.read_results("b")
    assert [r.key for r in after[: len(before)]] == [r.key for r in before]
    assert len({r.key for r in after}) == len(after) > len(before)


# --- backends that fail


def again(output: str) -> str:
    """The command behind the first ``again:``."""
    return re.findall(r"^ +again: +(.+)$", output, re.MULTILINE)[0]


OFF = (
    "run exp --dtype float32 --direction forward --examples 3 --no-shipped --no-exhaustive "
    "--backend users.py:Off"
)


def test_the_command_that_is_printed_fails_again() -> None:
    result = cli(OFF)
    assert result.exit_code == 1
    assert "✗ exp · float32 · forward · off   divergent: " in result.output
    assert re.search(r"^✗ \d+ divergent", result.output.splitlines()[-1])
    command = again(result.output)
    assert "--backend users.py:Off" in command
    folder = Path(shlex.split(command)[2])
    told = {"issue.md", "message.txt", "repro.py"}
    kept = {"case.json", "environment.json", "manifest.json", "result.json", "tensors.safetensors"}
    assert {path.name for path in folder.iterdir()} == told | kept
    assert command in (folder / "message.txt").read_text(encoding="utf-8")
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "✗ exp · float32 · forward · off   divergent: " in done.stdout
    # Without a bundle the command holds the case itself.
    from_line = shlex.split(again(done.stdout))
    assert from_line[2].startswith("{")
    assert cli(*from_line[1:]).exit_code == 1


def test_the_case_in_the_command_was_made_smaller() -> None:
    result = cli(OFF)
    shown = lookup.find(shlex.split(again(result.output))[2]).case
    (small,) = [
        row for row in rows(next(Path("reports").glob("*/results.jsonl"))) if row.get("shrunk")
    ]
    assert small["case_id"] == shown.id
    assert shown.args[0].base == ()


@pytest.mark.nightly
def test_a_folder_for_what_is_shown_even_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bundle_writer, "MAX_FAILURE_FOLDERS", 1)
    common = (
        "run exp neg --dtype float32 --direction forward --examples 1 --no-shipped "
        "--no-exhaustive --backend users.py:Off"
    )
    shrunk = cli(common, "--out", "small").output
    minimized = [block for block in shrunk.split("\n\n") if "  small:   " in block]
    assert minimized
    for block in minimized:
        (line,) = re.findall(r"again: +(.+)", block)
        assert (Path(shlex.split(line)[2]) / "case.json").is_file()
    drawn = cli(common, "--out", "drawn", "--no-shrink").output
    commands = [shlex.split(line) for line in re.findall(r"again: +(.+)", drawn)]
    assert any(words[2].startswith("{") for words in commands)  # no folder: then the case itself
    # One of each kind: a folder's case is run by this process, a pasted one by another.
    either = {words[2].startswith("{"): words for words in commands}
    assert len(either) == 2
    assert all(cli(*words[1:]).exit_code == 1 for words in either.values())


def test_a_backend_that_raises_is_an_error_of_its_own() -> None:
    result = cli("run exp --dtype float32 --examples 2 --backend cpu --backend users.py:Raises")
    assert result.exit_code == 1
    assert (
        "✗ exp · float32 · forward · raises   error: raised where the reference did not: "
        "RuntimeError: no [bold]luck"
    ) in result.output
    assert "\x1b" not in result.output


def test_a_wrong_shape_is_a_structure() -> None:
    arguments = (
        "--dtype", "float32", "--direction", "forward", "--examples", "2", "--backend",
        "users.py:Wider", "--no-shrink",
    )  # fmt: skip
    result = cli("run exp", *arguments)
    assert result.exit_code == 1
    assert re.search(r"structure: out/0 has shape \[1, .*\] instead of \[", result.output)


def test_a_backend_that_is_not_here_was_not_tested() -> None:
    result = cli(
        "run exp --dtype float32 --examples 2 --backend cpu --backend users.py:Absent --not-tested"
    )
    assert result.exit_code == 3
    assert "– absent  the cable is not plugged in" in result.output
    assert re.search(r"^unary   ✓ [\d.]+   – unavailable$", result.output, re.MULTILINE)
    assert re.search(r"^✓ .* 2 not tested ", result.output, re.MULTILINE)
    assert re.search(r"2  unavailable +absent: the cable is not plugged in", result.output)


def test_cuda_on_a_cpu_build() -> None:
    import torch

    if torch.version.cuda or torch.version.hip:
        pytest.skip("this torch is no CPU build")
    result = cli("run exp --dtype float32 --examples 2 --backend cuda")
    assert result.exit_code == 3
    assert "is a CPU build" in result.output
    assert "– nothing was tested: 2 not tested" in result.output.splitlines()[-1]


def test_other_backends_that_are_not_here_are_only_mentioned() -> None:
    result = cli("run neg --dtype float32 --examples 1")
    assert result.exit_code == 0
    assert re.search(
        r"^  – not here: .*directml.*\(why: consistency backends\)$", result.output, re.MULTILINE
    )
    listed = cli("run neg --dtype float32 --examples 1 --backend cpu")
    assert "not here" not in listed.output


# --- mistakes

MISTAKES = [
    "rnu",
    "run mtmul",
    "run conv4d",
    "list",
    "minimize x",
    "xyzzy",
    "run torch.svd_lowrank",
    "run nn.LayerNormm",
    "run cpu",
    "run cuda:1+tf32",
    "run float32",
    "run --backend cpu,numpy",
    "run --backend GPU",
    "run --dtype half",
    "run family:zzz",
    "report nowhere",
    "query 'SELECT 1' nowhere",
    "run 'no_such_*'",
    "run family:pool",
    "run --backend cpuu",
    "run --backend cpu+onedn=off",
    "run --backend none.py:A",
    "run --backend users.py:Of",
    "run --backend cpu --backend cpu",
    "run --dtype float23",
    "run --direction forwards",
    "run --profile quik",
    "run --resume",
    "run --resume --no-bundle",
    "run --tolerances none.yaml",
    "run softmax --dtype int8",
    "run exp --dtype int32 --direction backward",
    "run neg --json none/x.jsonl",
    "operators --family pool",
    "backends --backend cdua",
]
NOT_UNDERSTOOD = [
    "run --exmaples 3",
    "run --examples 0",
    "run --examples many",
    *(
        f"{command} {option} exp"
        for command in ("run", "record", "calibrate", "operators", "sweep")
        for option in ("--operators", "--operator", "--ops", "--op")
    ),
    "run --ops=exp",
    "repro --case x",
    "run --backends cpu",
    "repro x --backends cpu",
    "run --dtypes float32",
    "run -n 5",
    "run --device cuda",
    "run --zzz",
    "run --json",
    "fingerprint cpu",
    "fingerprint exp",
    "run --time-budget soon",
    "run --time-budget 0s",
    "repro --id exp-1",
]


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line(snapshot: Snapshot, line: str) -> None:
    text = one_line(cli(line))
    assert text.startswith("consistency: ")
    snapshot(text)
    assert not Path("reports").exists()


@pytest.mark.parametrize("line", NOT_UNDERSTOOD)
def test_a_command_line_that_cannot_be_understood_is_one_line(
    snapshot: Snapshot, line: str
) -> None:
    snapshot(one_line(cli(line)))


def test_a_command_of_a_group_that_is_not_known() -> None:
    """Versions of click go on in different words."""
    text = one_line(cli("corpus mak"))
    assert text.startswith("consistency corpus: no such command 'mak'")


def test_a_malformed_tolerances_file_is_located_line_by_line() -> None:
    Path("t.yaml").write_text(
        "extends: packaged\noperators:\n  matmul:\n    float32: {max_upl: 3}\n", encoding="utf-8"
    )
    result = cli("run matmul --tolerances t.yaml")
    assert result.exit_code == 2
    assert (
        "t.yaml:4:15  operators.matmul.float32.max_upl is not a key here; did you mean"
        in result.stderr
    )
    assert not Path("reports").exists()


def test_a_folder_that_cannot_be_written(snapshot: Snapshot) -> None:
    Path("file").write_text("", encoding="utf-8")
    assert "is a file" in one_line(cli("run neg --examples 1 --out file"))
    text = one_line(cli("run neg --examples 1 --backend cpu --out file/below"))
    snapshot(text)


def test_a_bundle_is_not_overwritten(snapshot: Snapshot) -> None:
    arguments = "run neg --examples 1 --dtype float32 --backend cpu --out b"
    assert cli(arguments).exit_code == 0
    snapshot(one_line(cli(arguments)))
    assert cli(arguments, "--resume").exit_code == 0


# --- the other commands


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(command: str) -> None:
    text = cli("{} --help", command).output
    assert f"consistency {command} " in text.split("Options:")[0].partition("\n")[2], (
        "an example to copy"
    )
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "Exit status:" in text


def test_the_options_of_a_run_stand_in_groups() -> None:
    titles = re.findall(r"^([A-Z][a-z ]+):$", cli("run", "--help").output, re.MULTILINE)
    assert titles == [
        "What to test", "Backends", "How much", "Judging", "Where it is judged", "Output", "Other",
    ]  # fmt: skip


def test_only_help_belongs_to_no_group() -> None:
    for name in COMMANDS:
        _, _, other = cli(name, "--help").output.partition("\nOther:\n")
        assert re.findall(r"--[\w-]+", other) in (["--help"], []), name


def test_a_group_without_a_command_shows_its_help() -> None:
    result = cli("corpus")
    assert result.exit_code in (0, 2)  # as click's version has it
    assert "Usage: consistency corpus" in result.output
    assert "Commands:" in result.output


def test_the_commands_come_in_the_order_of_their_use() -> None:
    text = cli("--help").output
    assert re.findall(r"^  (\w+)  ", text.split("Commands:")[1], re.MULTILINE) == COMMANDS
    assert "Exit status: 0 consistent · 1 a verdict fails · 2 bad usage" in text
    assert "..." not in text.split("Commands:")[1], "no description is cut"


def names(*arguments: str) -> list[str]:
    return [line.split()[0] for line in cli("operators", *arguments).stdout.splitlines()]


def test_operators_by_family_and_by_glob(snapshot: Snapshot) -> None:
    assert "nn.functional.max_pool2d" in names("--family", "pooling")
    assert "matmul" not in names("--family", "pooling")
    assert "nn.functional.avg_pool1d" in names("nn.functional.*pool*")
    assert names("exp", "matmul", "--family", "softmax")[:2] == ["exp", "matmul"]
    snapshot(cli("operators exp").stderr)


def test_operators_as_json() -> None:
    found = [json.loads(line) for line in cli("operators --json").stdout.splitlines()]
    assert len(found) > 300
    exp = next(row for row in found if row["name"] == "exp")
    assert exp.keys() >= {"name", "family", "dtypes", "directions", "error", "traits", "available"}
    assert exp["directions"] == ["forward", "backward"]


def test_backends_say_what_they_are_or_why_not(snapshot: Snapshot) -> None:
    listed = cli("backends --backend cpu --backend users.py:Absent")
    assert listed.exit_code == 0
    cpu, absent = listed.stdout.splitlines()
    assert cpu.startswith("✓ cpu ")
    assert "torch " in cpu
    snapshot(absent.split(maxsplit=2))
    known = json.loads(cli("backends --json").stdout)
    assert {row["name"] for row in known} >= {"cpu", "numpy", "cuda", "directml"}
    assert all(row["available"] or row["reason"] for row in known)


# --- repro


def test_a_case_is_found_by_line_file_folder_and_id() -> None:
    case = Case.from_line(LINE)
    folder = Path("reports/one/failures/x")
    folder.mkdir(parents=True)
    (folder / "case.json").write_text(LINE + "\n", encoding="utf-8")
    header = {"format": 1, "settings": {}}
    Path("reports/one/bundle.json").write_text(json.dumps(header), encoding="utf-8")
    Path("reports/one/cases.jsonl").write_text(
        json.dumps({"id": case.id, "case": case.to_json()}) + "\n", encoding="utf-8"
    )
    forms = (f"  {LINE}", str(folder), str(folder / "case.json"), case.id)
    for line, text in (("repro {}", LINE), *(("repro {} --trust", form) for form in forms)):
        result = cli(f"{line} --backend cpu", text)
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith("✓ exp · float32 · forward · cpu   rounding: ")
    text = one_line(cli("repro --trust", f"{case.id[:-1]}x"))
    assert text.endswith(f"in the bundles under reports/; did you mean {case.id}?")


def test_a_damaged_bundle_does_not_hide_the_others() -> None:
    Path("reports/two").mkdir(parents=True)
    Path("reports/two/bundle.json").write_text("{}", encoding="utf-8")
    Path("reports/two/cases.jsonl").write_text("not json\n", encoding="utf-8")
    text = one_line(cli("repro --trust exp-0123456789"))
    assert "passed over a damaged bundle: " in text
    assert "cases.jsonl:1  damaged: " in text


def test_repro_as_json_and_in_one_direction() -> None:
    result = cli("repro --trust {} --backend cpu --direction forward --json", LINE)
    (row,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert (row["verdict"], row["direction"], row["case_id"]) == (
        "rounding",
        "forward",
        Case.from_line(LINE).id,
    )


def test_repro_where_nothing_can_be_told(snapshot: Snapshot) -> None:
    absent = cli("repro --trust {} --backend users.py:Absent", LINE)
    assert absent.exit_code == 3
    snapshot(absent.stderr, "1")
    whole = Case("exp", "int32", (TensorRecipe((3,), "int32", ("integers", 0, 9), stop=9),)).line
    text = one_line(cli("repro --trust {} --backend cpu --direction backward", whole))
    snapshot(text, "2")


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "nonsense", ".", "..", "/", "{}", "{", "[]", "null", "{]", "\x00", "a\x00b",
        "x" * 5000, "{" * 5000, "\udc80",
        '{"operator":"exp","dtype":"float32","args":[{"tensor":{"base":[' + "9" * 5000 + ']}}]}',
        '{"operator":"nope","dtype":"float32"}', '{"operator":"exp","dtype":"nope"}',
        '{"operator":"exp","dtype":"float32","x":1}',
        '{"operator":"exp","dtype":"float32","args":[{"tensor":{"base":[3],"dtype":"float32","view":[["slice",9,0,1,1]]}}]}',
        '{"operator":"exp","dtype":"float32","args":[{"literal":{"sha256":"0","dtype":"float32","shape":[1],"stride":[1]}}]}',
        '{"operator":"exp","dtype":"float32","args":[{"tensor":{"base":[1048576,1048576],"dtype":"float32"}}]}',
    ],
    ids=lambda text: repr(text[:30]),
)  # fmt: skip
def test_nonsense_is_one_line(text: str) -> None:
    """Read in this process; what is not trusted is read in one of its own, by the same code."""
    line = one_line(cli("repro --trust -- {}", text))
    assert line.startswith("consistency: ")
    assert len(line) < 500


def test_files_that_are_no_cases_are_one_line(snapshot: Snapshot) -> None:
    Path("binary").write_bytes(b"\xff\xfe\x00{")
    Path("large").write_bytes(b" " * (lookup.MAX_CASE_BYTES + 1))
    Path("empty").mkdir()
    snapshot(one_line(cli("repro --trust binary")))
    assert "is larger than 1048576 bytes" in one_line(cli("repro --trust large"))
    assert "no case 'empty'" in one_line(cli("repro --trust empty"))


SIZES = st.sampled_from([-1, 0, 1, 2, 3, 7, 2**31, 2**63, 10**30, 0.5, True, None, "2", [], {}])
JUNK = st.recursive(
    st.none() | st.booleans() | SIZES | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
TENSORS = st.fixed_dictionaries(
    {
        "base": st.lists(SIZES, max_size=3) | JUNK,
        "dtype": st.sampled_from(["float32", "int64", "bool", "float", ""]),
    },
    optional={
        "values": JUNK
        | st.lists(st.sampled_from(["uniform", "wide", "near", 0, 1.0, -1]), max_size=4),
        "stop": SIZES,
        "view": JUNK
        | st.lists(
            st.lists(
                st.sampled_from(["transpose", "slice", "expand", "unfold", 0, 1, None]), max_size=4
            ),
            max_size=2,
        ),
        "special": JUNK
        | st.lists(st.tuples(SIZES, st.sampled_from(["nan", "0", "x"])), max_size=2),
    },
)
ARGUMENTS = st.one_of(
    TENSORS.map(lambda body: {"tensor": body}),
    st.dictionaries(
        st.sampled_from(["literal", "dtype", "slice", "tuple", "float"]), JUNK, max_size=1
    ),
    JUNK,
)
CASES = st.fixed_dictionaries(
    {
        "operator": st.sampled_from(["exp", "add", "sum", "cat", "nope"]),
        "dtype": st.sampled_from(["float32", "float64", "int64", "", "x"]),
    },
    optional={
        "args": st.lists(ARGUMENTS, max_size=3) | JUNK,
        "kwargs": st.dictionaries(
            st.sampled_from(["dim", "keepdim", "self", "x"]), ARGUMENTS, max_size=2
        )
        | JUNK,
        "cotangent": SIZES,
    },
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=120,
)
@given(st.one_of(st.text(), JUNK.map(json.dumps), CASES.map(json.dumps)))
@example('{"operator":"exp","dtype":"float32"}')
def test_whatever_is_pasted_ends_well(text: str) -> None:
    """In a verdict, or in one line and exit status 2; in this process, because another one for
    each text takes a hundred times as long."""
    ends_well(cli("repro --trust --backend cpu -- {}", text))


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    "text",
    [
        '{"operator":"exp","dtype":"float32","args":[1]}',
        '{"operator":"sum","dtype":"int64","args":[{"tensor":{"base":[2,3],"dtype":"int64"}}],"kwargs":{"dim":9}}',
        "nonsense", "\0",
    ],
)  # fmt: skip
def test_what_is_pasted_and_not_trusted_ends_well(text: str) -> None:
    ends_well(cli("repro --backend cpu -- {}", text))


def ends_well(result: Result) -> None:
    assert result.exit_code in (0, 1, 2, 3)
    if result.exit_code == 2:
        assert one_line(result).startswith("consistency: ")


def test_profiles_are_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def pretend(
        chosen: engine.RunConfig, handlers: Sequence[events.Handler], *more: object
    ) -> None:
        drawn.append(chosen.examples)

    monkeypatch.setattr(engine, "drive", pretend)
    for arguments in ([], ["--profile", "nightly"], ["--profile", "nightly", "--examples", "7"]):
        cli("run neg --backend cpu --no-bundle", *arguments)
    assert drawn == [PROFILES["quick"], PROFILES["nightly"], 7]
