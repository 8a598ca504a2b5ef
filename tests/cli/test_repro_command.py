"""``consistency repro``: whatever names a case; reproduced or not; folders from elsewhere; scripts
and issues on request."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from consistency.cli.main import main
from consistency.errors import BundleError, RecipeError, UsageError
from consistency.report.repro_script.environment import here
from consistency.storage import lookup, manifest
from consistency.storage.recording.import_folder import convert
from tests.support.commands import command
from tests.support.paths import DATA

BACKEND = """
import torch
from consistency import Backend

class Mine(Backend):
    name = "mine"

    def environment(self):
        return super().environment() | {"driver": "DRIVER"}

    def call(self, operator, args, kwargs):
        out = super().call(operator, args, kwargs)
        return FAULT
"""
FAULTY, HEALTHY = (
    'torch.where(args[0] > 0.5, out * 1.01, out) if operator.name == "exp" else out',
    "out",
)


def called(*arguments: str) -> Result:
    found = command("repro", *arguments)
    assert "Traceback" not in found.output
    return found


def backend(folder: Path, fault: str, driver: str = "1.0") -> str:
    path = folder / "mine.py"
    path.write_text(BACKEND.replace("FAULT", fault).replace("DRIVER", driver), encoding="utf-8")
    return f"{path}:Mine"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which exp fails, with its failures' folders."""
    folder = tmp_path_factory.mktemp("run")
    spec = backend(folder, FAULTY)
    arguments = [
        "run", "exp", "--dtype", "float32", "--direction", "forward", "--backend", spec,
        "--backend", "cpu",
    ]  # fmt: skip
    found = CliRunner().invoke(main, [*arguments, "--examples", "8", "--out", str(folder / "out")])
    assert found.exit_code == 1, found.output
    return folder / "out"


@pytest.fixture(scope="module")
def mine(bundle: Path) -> tuple[str, str]:
    """What a user adds who trusts the program on which the case failed."""
    return "--backend", f"{bundle.parent / 'mine.py'}:Mine"


@pytest.fixture
def failure(bundle: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of one failure's folder; the backend is faulty again afterwards."""
    import shutil

    folder = tmp_path / "failure"
    shutil.copytree(sorted((bundle / "failures").iterdir())[0], folder)
    yield folder
    backend(bundle.parent, FAULTY)


def test_a_folder_says_where_it_failed_and_it_fails_again(
    failure: Path, mine: tuple[str, str]
) -> None:
    found = called(str(failure), *mine)
    assert found.exit_code == 1
    assert found.output.startswith("✗ exp · float32 · forward · mine   divergent: ")
    assert found.output.splitlines()[-1] == "reproduced on mine"


@pytest.mark.parametrize("command", ["repro", "bisect", "expect"])
def test_a_program_that_a_folder_names_is_run_only_if_the_user_names_it(
    command: str, bundle: Path, failure: Path, tmp_path: Path
) -> None:
    backend(bundle.parent, f"open({str(tmp_path / 'ran')!r}, 'w')")
    more = (
        ["--ticket", "https://example.org/1", "-o", str(tmp_path / "known.yaml")]
        if command == "expect"
        else []
    )
    found = CliRunner().invoke(main, [command, str(failure), *more])
    assert not (tmp_path / "ran").exists()
    if command != "expect":  # it gets by with what the bundle keeps
        assert found.exit_code == 2
        assert re.fullmatch(
            (
                r"consistency: \S+ says that its backend was '\S+:Mine', which runs a program\. If "
                r".*\n"
            ),
            found.output,
        )
        assert f"add --backend {bundle.parent / 'mine.py'}:Mine" in found.output


@pytest.mark.parametrize(
    ("spec", "nothing"),
    [
        ("cpu", True), ("cuda:1+tf32", True), ("cpu+onednn=off+isolated", True), ("directml", True),
        ("", True),
        ("cpu+env:ATEN_CPU_CAPABILITY=default", True), ("cpu+env:LD_PRELOAD=x.so", False),
        ("cpu+env:PYTHONPATH=.", False),
        ("cpu@./python", False), ("x.py:y", False), ("x:y", False), ("x:y.z+isolated", False),
        ("a/b:y", False),
    ],
)  # fmt: skip
def test_specs_that_load_nothing(spec: str, nothing: bool, failure: Path) -> None:
    found = replace(lookup.find(str(failure)), spec=spec)
    if nothing:
        assert found.runnable() == spec
    else:
        with pytest.raises(UsageError, match="which runs a program"):
            found.runnable()


def test_what_does_not_fail_any_more_is_told_with_what_changed(
    bundle: Path, failure: Path, mine: tuple[str, str]
) -> None:
    backend(bundle.parent, HEALTHY, driver="2.0")
    found = called(str(failure), *mine)
    assert found.exit_code == 0, found.output
    assert "not reproduced on mine: divergent then, " in found.output
    assert "  driver: 1.0 then, 2.0 now" in found.output


def test_what_a_process_tells_of_itself_is_no_change(
    bundle: Path, failure: Path, mine: tuple[str, str]
) -> None:
    """Another process, which judged the run, also told its system and its Python."""
    backend(bundle.parent, HEALTHY, driver="2.0")
    stored = failure / "environment.json"
    told = json.loads(stored.read_text(encoding="utf-8"))
    told["backend"] |= {"os": here()["os"], "python": "3.2.1"}
    stored.write_text(json.dumps(told), encoding="utf-8")
    manifest.seal(failure)
    output = called(str(failure), *mine).output
    assert f"  python: 3.2.1 then, {here()['python']} now" in output
    assert "  os: " not in output


def test_a_backend_that_is_not_here_is_told_with_what_is_known(failure: Path) -> None:
    found = called(str(failure), "--backend", "cuda:7")
    assert found.exit_code == 3
    assert "– cuda:7: cannot run here: " in found.output
    assert "recorded: exp · float32 · forward · mine   divergent" in found.output


@pytest.mark.parametrize(
    ("factors", "told"),
    [
        (
            "11 bits, nearest even",
            (
                "mine, as its run kept it, confirms it: matmul float32 keeps 11 bits, nearest even "
                "of a factor"
            ),
        ),
        (
            "24 bits",
            (
                "mine, as its run kept it, does not confirm it: matmul float32 keeps 24 bits of a "
                "factor"
            ),
        ),
    ],
)
def test_a_cause_is_confirmed_by_what_a_run_kept(tmp_path: Path, factors: str, told: str) -> None:
    """The backend is not here to be asked; what the run found out of it is."""
    from tests.support.example_bundles import stored_run

    folder = stored_run(tmp_path / "run")
    path = folder / "environment.json"
    known = json.loads(path.read_text(encoding="utf-8"))
    known["mine"]["fingerprint"] = {
        "format": "2", "matmul/float32/multiplicand": factors,
        "matmul/float32/accumulator": "24 bits, nearest even", "bmm/float32/multiplicand": "8 bits",
    }  # fmt: skip
    path.write_text(json.dumps(known), encoding="utf-8")
    failure = next(
        f for f in sorted((folder / "failures").iterdir()) if f.name.startswith("matmul")
    )
    for named in ((str(failure),), (str(folder), "--id", failure.name)):
        found = called(*named, "--backend", "cuda:7")
        assert found.exit_code == 3
        assert f"  mine: the fingerprint of {told}" in found.output


def test_a_failure_elsewhere_is_told(failure: Path, bundle: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    spec = backend(other, FAULTY).replace("mine.py", "another.py")
    (other / "mine.py").rename(other / "another.py")
    text = (other / "another.py").read_text(encoding="utf-8").replace('"mine"', '"another"')
    (other / "another.py").write_text(text, encoding="utf-8")
    found = called(str(failure), "--backend", spec)
    assert found.exit_code == 1
    assert "it was found on mine; it fails on another as well" in found.output


def test_a_bundle_and_an_id_name_a_case(bundle: Path, failure: Path, mine: tuple[str, str]) -> None:
    case = lookup.find(str(failure)).case
    for identifier in (case.id, sorted((bundle / "failures").iterdir())[0].name):
        assert lookup.find(str(bundle), identifier).case.digest == case.digest
    found = called(str(bundle), "--id", case.id, *mine)
    assert found.exit_code == 1
    assert "reproduced on mine" in found.output
    for named in (
        (str(bundle), "--id", case.id),
        (str(failure),),
    ):  # the name that results bear is no spec by itself
        assert f"add {' '.join(mine)}" in called(*named, "--backend", "mine").output
    without = called(str(bundle))
    assert without.exit_code == 2
    assert "is a bundle: which case of it? Add --id ID" in without.output
    wrong = called(str(bundle), "--id", case.id[:-1] + "x")
    assert wrong.exit_code == 2
    assert f"did you mean {case.id}" in wrong.output


def test_the_stored_screen_spells_a_backend_as_it_was_asked_for(bundle: Path) -> None:
    shown = command("report {} --text", bundle).output
    assert f"--backend {bundle.parent / 'mine.py'}:Mine --direction forward" in shown.replace(
        "\n", ""
    )


def test_a_line_is_found_in_what_was_handed_on(failure: Path, tmp_path: Path) -> None:
    case = lookup.find(str(failure)).case
    for name, text in (
        (
            "log.txt",
            f"2026-01-01 worker 3: again: consistency repro '{case.line}' --backend mine\nmore",
        ),
        ("issue.md", f"# It differs\n\n```\n{case.line}\n```\n"),
        ("case.json", case.line),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert lookup.find(str(tmp_path / name)).case.digest == case.digest
    (tmp_path / "none.txt").write_text("nothing of that kind", encoding="utf-8")
    with pytest.raises(RecipeError, match="not a case"):
        lookup.find(str(tmp_path / "none.txt"))
    (tmp_path / "cut.txt").write_text(f"repro '{case.line[:-9]}", encoding="utf-8")
    with pytest.raises(RecipeError, match="not a case"):
        lookup.find(str(tmp_path / "cut.txt"))


@pytest.mark.nightly
def test_scripts_and_issues_stand_alone_on_standard_output(
    failure: Path, mine: tuple[str, str]
) -> None:
    command = [sys.executable, "-m", "consistency", "repro", str(failure), *mine]
    script = subprocess.run(
        [*command, "--script"], capture_output=True, text=True, encoding="utf-8"
    )
    assert script.returncode == 1, script.stderr
    compile(script.stdout, "repro.py", "exec")
    assert "torch.exp(" in script.stdout
    assert "reproduced on mine" in script.stderr
    issue = subprocess.run([*command, "--issue"], capture_output=True, text=True, encoding="utf-8")
    assert issue.stdout.startswith("# ")
    assert "torch.exp(" in issue.stdout
    assert "reproduced on mine" in issue.stderr


def test_a_smaller_case_is_written_with_its_script(
    failure: Path, mine: tuple[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "small"
    found = called(str(failure), *mine, "--minimize", "--seconds", "20", "-o", str(out))
    assert found.exit_code == 1, found.output
    assert "  smaller: " in found.output
    assert "it fails in 3 of 3 runs" in found.output
    small = lookup.find(str(out))
    assert small.failing is not None
    assert small.failing.backend == "mine"
    assert (out / "repro.py").is_file()
    told = (out / "issue.md").read_text(encoding="utf-8")
    assert "Not on `cpu`" in told, told  # also where only the backend that failed was asked
    assert "Not on `numpy`" in told, told
    assert called(str(out), *mine).exit_code == 1


def test_nothing_is_written_for_what_does_not_fail(tmp_path: Path, failure: Path) -> None:
    found = called(str(failure), "--backend", "cpu", "--issue")
    assert found.exit_code == 2
    assert "it fails nowhere here" in found.output


def _edited(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / name
        path.write_text(
            json.dumps(change(json.loads(path.read_text(encoding="utf-8")))), encoding="utf-8"
        )

    return damage


def _named(name: str) -> Callable[[Any], Any]:
    return lambda data: data | {"files": data["files"] | {name: {"bytes": 1, "sha256": "0"}}}


def _replaced(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text, encoding="utf-8") and None


def _linked(folder: Path) -> None:
    (folder / "message.txt").rename(folder.parent / "elsewhere.txt")
    (folder / "message.txt").symlink_to(folder.parent / "elsewhere.txt")


def _huge(folder: Path) -> None:
    with (folder / "case.json").open("r+b") as stream:
        stream.truncate(lookup.MAX_CASE_BYTES + 1)
    manifest.seal(folder)


def _other_result(folder: Path) -> None:
    _edited("result.json", lambda data: data | {"case_id": "exp-0000000000"})(folder)
    manifest.seal(folder)


DAMAGED = {
    "a script that was replaced": (_replaced("repro.py", "import os; os.remove('x')"),
    "repro.py has 2[0-9] bytes|repro.py has"),
    "a case that was replaced": (_replaced("case.json", '{"operator": "exp"}'),
    "case.json has .* damaged or replaced"),
    "a hash that is wrong": (
        _edited("manifest.json", lambda d: d | {"files": {k: v | {"sha256": "00"} for k,
        v in d["files"].items()}}),
        "does not match its SHA-256",
    ),
    "a path that leads out": (_edited("manifest.json", _named("../../etc/passwd")),
    "which is not a file of this folder"),
    "an absolute path": (_edited("manifest.json", _named("/etc/passwd")),
    "which is not a file of this folder"),
    "a drive": (_edited("manifest.json", _named("C:\\x")), "which is not a file of this folder"),
    "a file that is missing": (_edited("manifest.json", _named("more.json")),
    "more.json is missing"),
    "a manifest of lists": (_replaced("manifest.json", '{"files": [1]}'), "has format None"),
    "a manifest that is none": (_replaced("manifest.json", "{"), "cannot be read"),
    "a newer manifest": (_edited("manifest.json", lambda d: d | {"format": 99}),
    r"has format 99; this version \(0.1.0\) reads format 1"),
    "a huge case": (_huge, "is larger than 1048576 bytes"),
    "a result of another case": (_other_result, "does not belong to the case beside it"),
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_folder_is_refused_with_one_line(what: str, failure: Path) -> None:
    damage, words = DAMAGED[what]
    damage(failure)
    with pytest.raises((BundleError, RecipeError), match=words):
        lookup.find(str(failure))
    found = called(str(failure))
    assert found.exit_code == 2
    assert len(found.output.splitlines()) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege on Windows")
def test_a_link_out_of_the_folder_is_refused(failure: Path) -> None:
    _linked(failure)
    with pytest.raises(BundleError, match="is a link that leads out of its folder"):
        lookup.find(str(failure))


def test_a_folder_with_nothing_but_a_case_is_enough(failure: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "case.json").write_bytes((failure / "case.json").read_bytes())
    assert called(str(alone), "--backend", "cpu", "--direction", "forward").exit_code == 0


@pytest.mark.nightly
def test_a_recording_is_judged_where_its_device_is_not(tmp_path: Path) -> None:
    recording = tmp_path / "recording"
    convert(DATA / "directml-recording", recording)
    verdicts = tmp_path / "rows.jsonl"
    command("judge {} var --json {}", recording, verdicts)
    rows = [json.loads(line) for line in verdicts.read_text(encoding="utf-8").splitlines()]
    failing = next(row for row in rows if row["verdict"] == "divergent")
    found = called(str(recording), "--id", failing["recorded_id"])
    assert found.exit_code == 1
    assert "cannot run here: its outcome was recorded elsewhere" in found.output
    assert "divergent: " in found.output
    script = command("repro {} --id {} --script", recording, failing["recorded_id"])
    assert "import torch_directml" in script.stdout
    compile(script.stdout, "repro.py", "exec")
    assert called(str(recording)).exit_code == 2
    assert called(str(recording), "--id", "none-of-them").exit_code == 2
