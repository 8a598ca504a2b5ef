"""What bundle.json says, whatever format it is of; many bundles; one writer at a time."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import consistency
from consistency.cli.main import main
from consistency.core.locking import FILE, Lock
from consistency.core.version import __version__
from consistency.engine import engine
from consistency.errors import BundleError
from consistency.report.history.diff import difference
from consistency.storage import bundle
from consistency.storage.bundle import machine
from consistency.storage.bundle.header import new_id
from tests.support.commands import command
from tests.support.paths import DATA

FORMAT_1 = DATA / "bundle-format-1"
ARGUMENTS: dict[str, Any] = {
    "operators": ["exp"], "dtypes": ["float32"], "backends": ["cpu"], "examples": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "bundle"
    consistency.run(**ARGUMENTS, out=folder)
    return folder


def with_header(folder: Path, made: Path, **changes: Any) -> Path:
    shutil.copytree(made, folder)
    header = json.loads((folder / "bundle.json").read_text(encoding="utf-8")) | changes
    (folder / "bundle.json").write_text(
        json.dumps({k: v for k, v in header.items() if v != "absent"}), encoding="utf-8"
    )
    return folder


# --- the newest format


def test_a_header_says_which_run_on_what(made: Path) -> None:
    header = bundle.read_header(made)
    assert header["format"] == bundle.FORMAT == 2
    assert header["machine"] == machine.machine()
    assert {
        "host",
        "os",
        "os version",
        "architecture",
        "cpu",
        "cores",
        "memory",
        "python",
        "numpy",
    } <= header["machine"].keys()
    assert header["label"] == machine.label_of(
        header["machine"], bundle.read_environment(made)["cpu"]["torch"]
    )
    assert header["corpus"] is None
    assert header["id"] != new_id() != new_id()
    assert not (made / FILE).exists()


def test_the_host_s_name_is_nowhere(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "node", lambda: "secret-host")
    found = machine.machine()
    assert "secret" not in json.dumps(found)
    assert len(found["host"]) == 12 != bundle.read_header(made)["machine"]["host"]


def test_a_label_keeps_environments_apart_and_nights_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RUNNER_ENVIRONMENT", raising=False)
    about = {
        "os": "Linux", "architecture": "x86_64", "capability": "AVX2", "python": "3.12.4",
        "host": "0123456789ab",
    }  # fmt: skip
    assert machine.label_of(about, "2.13.0+cpu") == "linux-x86_64-avx2-torch2.13-py3.12-012345"
    assert machine.label_of(about, "2.14.0.dev20261121") == machine.label_of(
        about, "2.14.0.dev20261122"
    )
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    assert (
        machine.label_of(about, "2.13") == "linux-x86_64-avx2-torch2.13-py3.12-MKL_CBWR=AVX2-012345"
    )
    monkeypatch.setenv("RUNNER_ENVIRONMENT", "github-hosted")
    assert (
        machine.label_of(about | {"host": "ffff"}, "2.13")
        == "linux-x86_64-avx2-torch2.13-py3.12-MKL_CBWR=AVX2"
    )
    assert (
        machine.tidy(" a\n\tb\x1b[31m " + "x" * 500)
        == ("a b [31m " + "x" * 500)[: machine.MAX_LABEL]
    )


def test_the_user_s_label_stands_there(tmp_path: Path) -> None:
    arguments = [
        "run", "exp", "--dtype", "float32", "--backend", "cpu", "--examples", "1", "--label",
        "lab 3, RTX", "--out",
    ]  # fmt: skip
    shown = CliRunner().invoke(main, [*arguments, str(tmp_path / "b")])
    assert shown.exit_code == 0, shown.output
    assert bundle.read_header(tmp_path / "b")["label"] == "lab 3, RTX"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"id": "absent"}, "it has no 'id'"), ({"id": "../x"}, "id is '../x'; expected is a text"),
        ({"id": 7}, "id is 7; expected is a text"),
        ({"label": 3}, "label is 3; expected is a text"),
        ({"machine": "absent"}, "it has no 'machine'"),
        ({"machine": {str(i): i for i in range(999)}}, "expected is at most 200 entries"),
        ({"corpus": {}}, "corpus has no 'digest'"),
        ({"created": "yesterday"}, "created is 'yesterday'; expected is a time"),
        ({"format": True}, "has format True"),
        ({"format": 3, "consistency": "0.9"}, (r"reads formats 1 to 2: install consistency, 0.9 or "
        r"a later version")),
        ({"format": 3, "consistency": __version__}, "install consistency, a later version"),
        ({"format": 0}, "reads formats 1 to 2"), ({"format": [1]}, "has format [1]"),
        ({"settings": 1}, "settings is 1; expected is an object"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_damaged_header_is_one_line(
    changes: dict[str, Any], words: str, made: Path, tmp_path: Path
) -> None:
    folder = with_header(tmp_path / "b", made, **changes)
    shown = command("diff", made, folder)
    assert shown.exit_code == 2
    assert words in shown.output
    assert len(shown.output.strip().splitlines()) == 1


# --- the older one


def test_format_1_is_read_as_the_newest() -> None:
    header = bundle.read_header(FORMAT_1)
    assert header["format"] == 2
    assert header["id"].startswith("format1-")
    assert header["label"] == "avx512-torch2.13"
    assert header["machine"] == {"cpu": "x86_64 AVX512", "capability": "AVX512", "numpy": "2.4.6"}
    assert (header["corpus"], header["complete"]) == (None, True)
    assert json.loads((FORMAT_1 / "bundle.json").read_text(encoding="utf-8"))["format"] == 1
    assert len(bundle.read_results(FORMAT_1)) == 20


def test_a_copy_of_format_1_has_the_same_id_and_another_run_another(tmp_path: Path) -> None:
    shutil.copytree(FORMAT_1, tmp_path / "copy")
    assert bundle.read_header(tmp_path / "copy")["id"] == bundle.read_header(FORMAT_1)["id"]
    other = with_header(tmp_path / "other", FORMAT_1, created="2026-11-22T17:19:19+00:00")
    assert bundle.read_header(other)["id"] != bundle.read_header(FORMAT_1)["id"]


def test_format_1_is_compared_reported_and_completed(tmp_path: Path) -> None:
    assert difference(FORMAT_1, FORMAT_1).like == 20
    assert command("report {} --text", FORMAT_1).exit_code == 0
    shutil.copytree(FORMAT_1, tmp_path / "b")
    lines = (tmp_path / "b" / "results.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "b" / "results.jsonl").write_bytes(b"".join(lines[:-5]) + lines[-5][:30])
    header = json.loads((FORMAT_1 / "bundle.json").read_text(encoding="utf-8"))
    chosen = engine.configure(["exp", "matmul"], ["cpu", "numpy"], ["float32"], examples=3)
    header["settings"]["tolerances"] = (
        chosen.tolerances.digest
    )  # the packaged ones may have changed since
    (tmp_path / "b" / "bundle.json").write_text(json.dumps(header), encoding="utf-8")
    kept = {r.key for r in bundle.read_results(FORMAT_1)[:-5]}
    run = consistency.run(
        ["exp", "matmul"],
        ["cpu", "numpy"],
        ["float32"],
        examples=3,
        out=tmp_path / "b",
        resume=True,
    )
    rows = bundle.read_results(tmp_path / "b")
    assert {r.key for r in rows} == kept | {r.key for r in run.results}
    assert len(rows) == len({r.key for r in rows})


# --- many


def test_bundles_are_gathered_oldest_first_each_run_once(made: Path, tmp_path: Path) -> None:
    shutil.copytree(FORMAT_1, tmp_path / "nights" / "1" / "lab")
    with_header(
        tmp_path / "nights" / "2" / "lab",
        made,
        id="20200101T000000Z-x",
        created="2020-01-01T03:00:00+03:00",
    )
    twin = with_header(
        tmp_path / "nights" / "3", made, id="20200101T000000Z-x", created="2020-01-01"
    )
    (twin / "results.jsonl").write_text("", encoding="utf-8")
    with_header(tmp_path / "nights" / "4", made, format=9)
    (tmp_path / "nights" / "5").mkdir()
    (tmp_path / "nights" / "5" / "bundle.json").write_text("{", encoding="utf-8")
    found, problems = bundle.gather([tmp_path / "nights", tmp_path / "nights" / "1", made])
    assert [one.created for one in found] == sorted(one.created for one in found)
    assert found[0].folder == tmp_path / "nights" / "2" / "lab"
    assert {one.folder for one in found[1:]} == {tmp_path / "nights" / "1" / "lab", made}
    assert found[0].created == "2020-01-01T00:00:00+00:00"
    assert len(problems) == 3
    assert sum("is the same run as" in line for line in problems) == 1
    with pytest.raises(BundleError, match="is not there"):
        bundle.gather([tmp_path / "nothing"])


# --- one writer


def test_a_second_run_into_the_same_folder_is_refused(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    lock = Lock(folder)
    try:
        for extra in ([], ["--resume"]):
            arguments = [
                "run", "exp", "--backend", "cpu", "--dtype", "float32", "--examples", "1", "--out",
                str(folder), *extra,
            ]  # fmt: skip
            shown = CliRunner().invoke(main, arguments)
            assert shown.exit_code == 2
            (line,) = shown.output.strip().splitlines()
            assert (
                f"{folder} is being written by another run (process {os.getpid()} since 20" in line
            )
            assert line.endswith("wait until it has ended, or name another folder")
        assert not (folder / "bundle.json").exists()
    finally:
        lock.release()
    lock.release()
    Lock(folder).release()
    assert not (folder / FILE).exists()


def test_a_killed_run_leaves_no_lock(tmp_path: Path) -> None:
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom consistency.core.locking import Lock\n"
        f"Lock(Path({str(tmp_path)!r}))\nprint('held', flush=True)\nsys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(BundleError, match=f"process {holder.pid} since"):
        Lock(tmp_path)
    holder.kill()
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()
    assert (tmp_path / FILE).exists()
    Lock(tmp_path).release()
