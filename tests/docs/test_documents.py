"""The documents: links lead somewhere, options exist, and ARCHITECTURE.md names what is there."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from consistency.cli.main import main
from tests.support.paths import ROOT
from tests.test_imports import ROOMS

PACKAGE = ROOT / "consistency"
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "reports").glob("*.md")]
)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


def prose(page: Path) -> str:
    return re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


def broken(page: Path) -> list[str]:
    """Relative links, with their anchors, that lead nowhere."""
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            wrong.append(target)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    assert not broken(page)


def test_a_link_that_leads_nowhere_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A title: `x`\n[a](page.md#a-title-x) [b](#a-title-x) [c](none.md) [d](#none)\n",
        encoding="utf-8",
    )
    assert broken(page) == ["none.md", "#none"]


def test_the_index_names_every_page() -> None:
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(re.findall(r"\]\(([\w-]+\.md)", text))


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name == "docs"])
def test_a_page_says_first_who_should_read_it(page: Path) -> None:
    """The title is followed by a paragraph with the reader and what they can do afterwards."""
    title, _, paragraph, *_ = page.read_text(encoding="utf-8").split("\n", 3)
    assert title.startswith("# ")
    assert paragraph.startswith("For whoever ")


def test_the_constants_of_the_judge_stand_where_the_page_says() -> None:
    text = (ROOT / "docs" / "constants.md").read_text(encoding="utf-8")
    places = re.findall(r"`([a-z_]+(?:/[a-z_]+)+)`: ((?:`\w+`(?:, )?)+)", text)
    assert len(places) > 25
    for module, names in places:
        imported = importlib.import_module("consistency." + module.replace("/", "."))
        for name in re.findall(r"`(\w+)`", names):
            found = hasattr(imported, name) or any(
                hasattr(value, name) for value in vars(imported).values() if isinstance(value, type)
            )
            assert found, (module, name)


def commands(page: Path) -> list[list[str]]:
    """The words of every `consistency …` in the blocks of a page, with what stands behind some of
    them as a remark."""
    blocks = re.findall(
        r"^```(?:console|text|bash|yaml)?\n(.*?)^```$",
        page.read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    lines = [line.removeprefix("$ ") for body in blocks for line in body.splitlines()]
    return [
        shlex.split(line, comments=True)
        for line in lines
        if re.match(r"consistency [a-z]+( |$)", line)
    ]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_options_exist(page: Path) -> None:
    """Every command and option that a page shows is one that --help knows."""
    for words in commands(page):
        path = words[1:3] if words[1] == "corpus" else words[1:2]
        told = CliRunner().invoke(main, [*path, "--help"])
        assert told.exit_code == 0, (words, told.output)
        unknown = [
            word
            for word in words
            if re.fullmatch(r"--[a-z][\w-]*(=.*)?", word) and word.split("=")[0] not in told.output
        ]
        assert not unknown, words


def test_the_architecture_names_every_room_in_its_order() -> None:
    rows = re.findall(
        r"^\| (.*?) \| (.*?) \| .* \|$",
        (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )[1:]
    named: list[str] = []
    for room, inside in rows:
        words = re.findall(r"`([\w./]+)`", room)
        named += words
        for word in [*words, *re.findall(r"`([\w./]+)`", inside)]:
            folders = (PACKAGE, ROOT, *(PACKAGE / place for place in words))
            assert any(
                (folder / name).exists() for folder in folders for name in (word, f"{word}.py")
            ), (word, room)
    loose = {"pytest_plugin/", "suite/"}
    folders_named = [word for word in named if (PACKAGE / word).is_dir() and word not in loose]
    rooms = [word.removesuffix("/") for word in folders_named]
    assert rooms == ROOMS
    there = {
        path.name + "/" * path.is_dir()
        for path in PACKAGE.iterdir()
        if not path.name.startswith(("_", "."))
    }
    assert {name for name in there if name.endswith((".py", "/"))} == set(named)
