"""Commands that write folders: only new or empty ones, or their own; what they did not write
stays."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import duckdb
import pytest

from tests.support.commands import command
from tests.support.example_bundles import stored_run
from tests.support.fuzzing import snapshot
from tests.support.planting import harmless, needs_unix

DRAWN = "exp --dtype float32 --examples 2"
WRITING = {
    "run": f"run {DRAWN} --direction forward --backend cpu --out {{}}",
    "record a corpus": f"record {DRAWN} -o {{}}",
    "record": f"record {DRAWN} --backend cpu -o {{}}",
    "corpus make": f"corpus make {DRAWN} -o {{}}",
    "corpus merge": "corpus merge BUNDLE -o {}",
    "matrix": "matrix BUNDLE -o {}",
    "sweep": "sweep exp --backend cpu --vary N=1..4 --points 2 --dtype float32 -o {}",
    "repro": "repro BUNDLE --id exp-ID --backend cpu --direction forward -o {}",
    "judge": "judge RECORDING -o {}",
    "model": "model examples:mlp --steps 0 --record {}",
}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored_run(tmp_path_factory.mktemp("stored") / "bundle")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded") / "recording"
    assert command(f"record {DRAWN} --backend cpu -o {{}}", folder).exit_code == 0
    return folder


def full(folder: Path) -> Path:
    """A folder of the user's, with names that commands use, too."""
    for name in (
        "report.html", "running.lock", "operators/exp.html", "failures/000-mine/repro.py",
        "literals/mine.safetensors",
        "tensors/pending-000001.safetensors",
        "results.jsonl", "cases.jsonl", "notes.txt",
    ):  # fmt: skip
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"mine: {name}\n", encoding="utf-8")
    return folder


def line_of(name: str, bundle: Path, recording: Path) -> str:
    failing = next((bundle / "failures").glob("*-forward")).name
    line = WRITING[name].replace("BUNDLE --id exp-ID", f"{bundle / 'failures' / failing}")
    return line.replace("BUNDLE", str(bundle)).replace("RECORDING", str(recording))


@pytest.mark.parametrize("name", [name for name in WRITING if name != "repro"])
def test_a_folder_of_the_user_is_left_alone(
    name: str, bundle: Path, recording: Path, tmp_path: Path
) -> None:
    folder = full(tmp_path / "mine")
    before = snapshot.take(tmp_path)
    said = command(line_of(name, bundle, recording), folder)
    assert said.exit_code == 2, said.output
    assert len(said.output.splitlines()) == 1, said.output
    assert f"{folder} holds something that is no " in said.output
    assert "name another folder" in said.output
    assert list(snapshot.differences(before, snapshot.take(tmp_path))) == []


@pytest.mark.parametrize("name", [name for name in WRITING if name not in ("repro", "judge")])
def test_an_empty_folder_is_written(
    name: str, bundle: Path, recording: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    said = command(line_of(name, bundle, recording), folder)
    assert said.exit_code in (0, 1), said.output
    assert len(list(folder.iterdir())) > 1
    assert (folder / ".gitignore").read_text(encoding="utf-8") == "*\n"


@pytest.mark.parametrize("name", ["matrix", "sweep"])
def test_a_folder_that_the_command_wrote_is_written_again(
    name: str, bundle: Path, recording: Path, tmp_path: Path
) -> None:
    for _ in range(2):
        said = command(line_of(name, bundle, recording), tmp_path / "out")
        assert said.exit_code in (0, 1), said.output


@pytest.mark.nightly
def test_a_failure_is_written_into_its_own_folder_only(tmp_path: Path) -> None:
    backend = tmp_path / "wrong.py"
    backend.write_text(
        "import consistency\n"
        "class Wrong(consistency.Backend):\n"
        "    name = 'wrong'\n"
        "    def call(self, fn, args, kwargs):\n"
        "        return fn(*args, **kwargs) + 1\n",
        encoding="utf-8",
    )
    run = f"run {DRAWN} --backend {backend}:Wrong --direction forward --no-shrink --out {{}}"
    assert command(run, tmp_path / "b").exit_code == 1
    failure = next((tmp_path / "b" / "failures").iterdir())
    line = f"repro {failure} --backend {backend}:Wrong -o {{}}"
    mine = full(tmp_path / "mine")
    before = snapshot.take(mine)
    said = command(line, mine)
    assert said.exit_code == 2
    assert f"{mine} holds something that is no failure's folder" in said.output
    assert list(snapshot.differences(before, snapshot.take(mine))) == []
    for _ in range(2):
        assert command(line, tmp_path / "issue").exit_code == 1


def test_a_site_removes_what_it_wrote_and_nothing_else(bundle: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert command("matrix {} -o {}", bundle, site).exit_code == 0
    marker = json.loads((site / "consistency.json").read_text(encoding="utf-8"))
    written = {p.relative_to(site).as_posix() for p in site.rglob("*") if p.is_file()}
    assert set(marker["files"]) == written - {"consistency.json"}
    stale = site / "operators" / "stale.html"
    shutil.copyfile(site / "operators" / "exp.html", stale)
    gone = site / "failures" / "007-gone" / "repro.py"
    gone.parent.mkdir()
    gone.write_text("# of an earlier night\n", encoding="utf-8")
    names = ["operators/stale.html", "failures/007-gone/repro.py", "../victim.txt", "notes.html"]
    marker["files"] += names
    (site / "consistency.json").write_text(json.dumps(marker), encoding="utf-8")
    mine = [
        tmp_path / "victim.txt", site / "notes.html", site / "operators" / "mine.html",
        site / "failures" / "mine.txt",
    ]  # fmt: skip
    for path in mine:
        path.write_text("mine\n", encoding="utf-8")
    assert command("matrix {} -o {}", bundle, site).exit_code == 0
    assert all(path.is_file() for path in mine)
    assert not stale.exists()
    assert not gone.parent.exists()


def test_a_site_of_an_earlier_version_is_continued(bundle: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert command("matrix {} -o {}", bundle, site).exit_code == 0
    (site / "consistency.json").unlink()
    shutil.copyfile(site / "operators" / "exp.html", site / "operators" / "stale.html")
    (site / "operators" / "mine.html").write_text("<title>Mine</title>", encoding="utf-8")
    assert command("matrix {} -o {}", bundle, site).exit_code == 0
    assert (site / "consistency.json").is_file()
    assert (site / "operators" / "mine.html").is_file()
    assert not (site / "operators" / "stale.html").exists()


@needs_unix
@pytest.mark.parametrize("name", ["operators", "failures", "index.html", "consistency.json"])
def test_a_site_is_not_written_through_links(name: str, bundle: Path, tmp_path: Path) -> None:
    site, outside = tmp_path / "site", tmp_path / "outside"
    assert command("matrix {} -o {}", bundle, site).exit_code == 0
    path = site / name
    path.rename(outside) if path.is_dir() else outside.mkdir()
    target = outside
    if path.is_file():
        target = path.rename(outside / name)
    path.symlink_to(target)
    said = harmless(outside, "matrix {} -o {}", bundle, site)
    assert said.exit_code == (0 if name == "index.html" else 2), said.output
    assert path.is_symlink() == (name != "index.html")


@needs_unix
def test_outputs_that_are_named_replace_links_and_reach_devices(
    bundle: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "page.html").write_text("mine\n", encoding="utf-8")
    link = tmp_path / "page.html"
    link.symlink_to(outside / "page.html")
    for line in ("report {} -o {}", "report {} --markdown -o {}"):
        assert harmless(outside, line, bundle, link).exit_code == 0
    line = f"run {DRAWN} --backend cpu --no-bundle --json {{}}"
    link.unlink()
    link.symlink_to(outside / "page.html")
    assert harmless(outside, line, link).exit_code == 0
    assert not link.is_symlink()
    assert link.read_text(encoding="utf-8").startswith("{")
    for device in ("/dev/null", "/dev/stderr"):
        assert command("report {} -o {}", bundle, device).exit_code == 0
        assert command(line, device).exit_code == 0
        assert not os.path.isfile("/dev/null")  # noqa: PTH113 - as it is, not where it leads


def test_a_database_of_the_user_is_no_store(bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.duckdb"
    with duckdb.connect(str(path)) as db:
        db.execute("CREATE TABLE about (version BIGINT); INSERT INTO about VALUES (1)")
    before = path.read_bytes()
    for said in (
        command("query 'SELECT 1' {}", path),
        command("matrix {} -o {} --store {}", bundle, tmp_path / "site", path),
    ):
        assert said.exit_code == 2
        assert "is a database of something else; name another file with --store" in said.output
    assert path.read_bytes() == before
    empty = tmp_path / "empty.duckdb"
    empty.touch()
    assert command("query 'SELECT 1' {}", empty).exit_code == 2
    assert empty.is_file()
