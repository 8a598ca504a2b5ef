"""Bundles, recordings and corpora with links, devices, pipes and sockets in place of their files:
nothing outside changes, nothing waits, and the user gets one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from consistency.core.model import Case, Outcome, Output
from consistency.core.recipe import Literal
from consistency.errors import BundleError
from consistency.storage.literals import write_literals
from consistency.storage.recording.header import RECORDING, Header
from consistency.storage.recording.writing import RecordingWriter
from tests.storage.test_recording import CASE, any_bits
from tests.support import planting
from tests.support.commands import command
from tests.support.example_bundles import stored_run
from tests.support.fuzzing import snapshot
from tests.support.planting import PLANTS, harmless, needs_unix

pytestmark = needs_unix
WRONG = """import consistency
class Wrong(consistency.Backend):
    name = "wrong"
    def call(self, fn, args, kwargs):
        return fn(*args, **kwargs) + 1
"""
RUN = "run exp --backend cpu --dtype float32 --direction forward --examples 3 --seed 7"
READ = ("bundle.json", "environment.json", "cases.jsonl", "results.jsonl")
WRITTEN = (
    "bundle.json", "environment.json", "cases.jsonl", "results.jsonl", "running.lock",
    "scaling.jsonl",
    "report.html",
)  # fmt: skip
READING = (
    "report B --text", "report B --markdown", "diff B B", "repro B --id ID --backend cpu",
    "explain B#cpu B#cpu", "corpus merge B -o NEW", "corpus merge B/failures/ID -o NEW",
    "matrix B -o NEW", 'query "SELECT count(*) FROM results" B', "query --filter exp B",
    "expect B/failures/ID --ticket T -o NEW",
)  # fmt: skip


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored_run(tmp_path_factory.mktemp("stored") / "bundle")


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that can be completed."""
    folder = tmp_path_factory.mktemp("interrupted") / "bundle"
    assert command(f"{RUN} --out {{}}", folder).exit_code == 0
    path = folder / "results.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    return folder


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded") / "recording"
    writer = RecordingWriter(folder, Header(RECORDING, "mine", {"device": "here"}))
    writer.case(CASE, ["forward"])
    outputs = (Output("out/0", any_bits(torch.float32, (4,)), "float32", "cpu"),)
    writer.outcome("one", CASE, "forward", Outcome("ok", outputs))
    writer.finish()
    writer.close()
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    place = tmp_path / "outside"
    place.mkdir()
    (place / "notes.txt").write_text("mine\n", encoding="utf-8")
    return place


def words(line: str, folder: Path, failure: str, new: Path) -> str:
    """The command with its words replaced."""
    parts = line.replace("failures/ID", f"failures/{failure}").replace(" ID ", f" {failure} ")
    return parts.replace(" B", f" {folder}").replace("NEW", str(new))


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_read_is_a_regular_file_of_the_folder(
    plant: str, name: str, bundle: Path, outside: Path, tmp_path: Path
) -> None:
    failure = next((bundle / "failures").iterdir()).name
    told = 0
    for number, line in enumerate(READING):
        folder = tmp_path / f"b{number}"
        shutil.copytree(bundle, folder)
        PLANTS[plant](folder / name, outside)
        said = harmless(outside, words(line, folder, failure, tmp_path / f"new{number}"))
        told += name in said.output
        shutil.rmtree(outside)
        outside.mkdir()
    # A hard link is a regular file, and a dangling link is a missing one.
    assert plant in ("hard link", "dangling link") or told >= 4, told


@pytest.mark.parametrize("line", ["report B", "pack B", f"{RUN} --resume --out B"])
@pytest.mark.parametrize("plant", ["link", "hard link", "dangling link", "pipe"])
def test_nothing_is_written_through_what_was_planted(
    plant: str, line: str, interrupted: Path, outside: Path, tmp_path: Path
) -> None:
    for number, name in enumerate(WRITTEN):
        folder = tmp_path / f"b{number}"
        shutil.copytree(interrupted, folder)
        PLANTS[plant](folder / name, outside)
        said = harmless(outside, line.replace(" B", f" {folder}"))
        assert said.exit_code in (0, 2), (name, said.output)
        shutil.rmtree(outside)
        outside.mkdir()


def test_failures_are_not_written_into_a_link(outside: Path, tmp_path: Path) -> None:
    backend = tmp_path / "wrong.py"
    backend.write_text(WRONG, encoding="utf-8")
    line = (
        f"run exp --backend {backend}:Wrong --dtype float32 --examples 3 --no-shipped "
        "--no-exhaustive --no-shrink --out {}"
    )
    folder = tmp_path / "b"
    assert command(line, folder).exit_code == 1
    results = folder / "results.jsonl"
    results.write_bytes(b"")
    shutil.rmtree(folder / "failures")
    target = outside / "folder"
    target.mkdir()
    (folder / "failures").symlink_to(target)
    said = harmless(outside, f"{line} --resume", folder)
    assert said.exit_code == 2
    assert f"{folder / 'failures'} is a link" in said.output
    (folder / "failures").unlink()
    results.write_bytes(b"")
    assert harmless(outside, f"{line} --resume", folder).exit_code == 1
    assert list((folder / "failures").iterdir())


def test_literals_are_not_written_into_a_link(outside: Path, tmp_path: Path) -> None:
    case = Case("exp", "float32", (Literal(bytes(4096), "float32", (1024,), (1,), 0, True),))
    (tmp_path / "literals").symlink_to(outside)
    before = snapshot.take(outside)
    with pytest.raises(BundleError, match="literals is a link"):
        write_literals(tmp_path, case)
    assert snapshot.take(outside) == before
    (tmp_path / "literals").unlink()
    write_literals(tmp_path, case)
    assert list((tmp_path / "literals").iterdir())


@pytest.mark.one_in(6)
@pytest.mark.parametrize("plant", ["link", "device", "pipe", "link to itself"])
@pytest.mark.parametrize(
    "name", ["recording.json", "cases.jsonl", "outcomes.jsonl", "tensors", "tensors/*"]
)
def test_recordings_are_regular_files(
    name: str, plant: str, recording: Path, outside: Path, tmp_path: Path
) -> None:
    for number, line in enumerate(
        ("judge R", "repro R --id one", "run --backend cpu --corpus R --out NEW", "corpus show R")
    ):
        folder = tmp_path / f"r{number}"
        shutil.copytree(recording, folder)
        (path,) = folder.glob(name)
        PLANTS[plant](path, outside)
        line = line.replace(" R", f" {folder}").replace("NEW", str(tmp_path / f"new{number}"))
        said = harmless(outside, line)
        assert said.exit_code == 2 or name.startswith("tensors"), (line, said.output)
        shutil.rmtree(outside)
        outside.mkdir()
    said = harmless(outside, "judge {}", folder)
    assert said.exit_code == 2, said.output


def test_a_recording_is_not_completed_through_links(
    recording: Path, outside: Path, tmp_path: Path
) -> None:
    for number, name in enumerate(
        ("recording.json", "cases.jsonl", "outcomes.jsonl", "running.lock", "tensors")
    ):
        folder = tmp_path / f"r{number}"
        shutil.copytree(recording, folder)
        planting.link(folder / name, outside)
        (outside / "mine.tmp").write_text("mine\n", encoding="utf-8")
        said = harmless(outside, "record exp --backend cpu --examples 2 --resume --out {}", folder)
        assert said.exit_code == 2, (name, said.output)


def test_a_file_that_is_no_temporary_one_of_ours_stays(recording: Path, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    shutil.copytree(recording, folder)
    notes = folder / "tensors" / "notes.tmp"
    notes.write_text("mine\n", encoding="utf-8")
    left = folder / "tensors" / f"{'0' * 32}.tmp"
    left.write_text("interrupted\n", encoding="utf-8")
    header = Header(RECORDING, "mine", {"device": "here"})
    RecordingWriter(folder, header, resume=True).close()
    assert notes.is_file()
    assert not left.exists()


def test_links_to_files_of_the_same_folder_are_read(bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    shutil.copytree(bundle, folder)
    for name in READ:
        planting.inside(folder / name, tmp_path)
    healthy = command("report --text {}", bundle)
    said = command("report --text {}", folder)
    assert said.exit_code == healthy.exit_code == 0
    assert said.output.replace(str(folder), "") == healthy.output.replace(str(bundle), "")
    assert command("diff {} {}", bundle, folder).exit_code == 0


def test_an_ordinary_bundle_is_completed_and_packed(interrupted: Path, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    shutil.copytree(interrupted, folder)
    assert command(f"{RUN} --resume --out {{}}", folder).exit_code == 0
    assert command("pack {}", folder).exit_code == 0
    assert (folder / "results.jsonl.gz").is_file()
    assert command(f"{RUN} --resume --out {{}}", folder).exit_code == 0
    assert not (folder / "running.lock").exists()


def test_a_bundle_named_by_a_link_is_an_ordinary_one(interrupted: Path, tmp_path: Path) -> None:
    shutil.copytree(interrupted, tmp_path / "b")
    latest = tmp_path / "latest"
    latest.symlink_to("b")
    assert command("report {}", latest).exit_code == 0
    assert command(f"{RUN} --resume --out {{}}", latest).exit_code == 0
    assert json.loads((tmp_path / "b" / "bundle.json").read_text(encoding="utf-8"))["complete"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("plant", ["link", "device", "pipe"])
def test_files_that_are_named_are_regular_ones(plant: str, outside: Path, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("{}", encoding="utf-8")
    PLANTS[plant](path, outside)
    for line in (
        "repro {}", "run exp --backend cpu --no-bundle --tolerances {}",
        "run exp --backend cpu --no-bundle --expectations {}",
        "explain {} cpu",
        "calibrate exp --backend cpu --dtype float32 --worst {}",
    ):  # fmt: skip
        said = harmless(outside, line, path)
        assert said.exit_code == 2, (line, said.output)
