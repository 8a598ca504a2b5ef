"""Fork servers that outlive their children for a short time."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from consistency.core import forkserver, kept_forkservers
from consistency.core.kept_forkservers import KeptForkServers

pytestmark = pytest.mark.skipif(not forkserver.USABLE, reason="processes are forked on Linux only")

# A child that answers each line with its folder, its variable and its process group.
ECHO = """
import os, sys
from consistency.core.forkserver import serve

def main():
    while line := sys.stdin.buffer.readline():
        if line.startswith(b"die"):
            os.kill(os.getpid(), 9)
        if line.startswith(b"leave"):
            return
        text = f"{os.getcwd()} {os.environ.get('COLOR')} {os.getpgid(0) == os.getpid()}\\n"
        os.write(1, text.encode())

serve(int(sys.argv[2]), lambda: None, main)
"""


@pytest.fixture
def servers() -> Iterator[KeptForkServers]:
    kept = KeptForkServers(ECHO)
    yield kept
    kept.close()


def asked(process: Any, line: bytes = b"who\n") -> str:
    process.stdin.write(line)
    process.stdin.flush()
    return str(process.stdout.readline().decode().strip())


def ended(process: Any) -> None:
    process.kill()
    process.wait(10.0)
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()


def forked(servers: KeptForkServers, color: str) -> Any:
    return servers.fork(sys.executable, {**os.environ, "COLOR": color})


def test_children_of_one_environment_share_a_server_and_start_where_they_are_asked_for(
    servers: KeptForkServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = forked(servers, "red")
    monkeypatch.chdir(tmp_path)
    second, other = (
        forked(servers, "red"),
        forked(servers, "blue"),
    )
    assert first.server is second.server is not other.server
    assert asked(first) != asked(second) == f"{tmp_path} red True"
    assert asked(other) == f"{tmp_path} blue True"
    for process in (first, second, other):
        ended(process)


def test_a_folder_that_was_deleted_is_no_obstacle(
    servers: KeptForkServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    first = forked(servers, "red")
    assert asked(first).startswith(str(folder))
    folder.rmdir()
    second = forked(servers, "red")
    assert asked(second, b"leave\n") == ""
    assert second.wait(10.0) == 0
    ended(first)
    ended(second)


def test_how_a_child_ended_is_known_and_the_next_one_comes_from_the_same_server(
    servers: KeptForkServers,
) -> None:
    for line, status in ((b"die\n", -signal.SIGKILL), (b"leave\n", 0)):
        child = forked(servers, "red")
        assert asked(child, line) == ""
        assert child.wait(10.0) == status
        ended(child)
    assert len(servers._kept) == 1


def test_a_server_that_died_is_replaced(servers: KeptForkServers) -> None:
    child = forked(servers, "red")
    assert asked(child)
    server = child.server
    server.process.kill()
    server.process.wait(10.0)
    ended(child)
    again = forked(servers, "red")
    assert [kept.server for kept in servers._kept] == [again.server]
    assert again.server is not server
    assert asked(again)
    ended(again)


def test_another_environment_ends_servers_without_children_only(servers: KeptForkServers) -> None:
    red = forked(servers, "red")
    assert asked(red)
    blue = forked(servers, "blue")
    assert asked(red)
    ended(red)
    while red.server.in_use:
        time.sleep(0.01)
    green = forked(servers, "green")
    assert red.server.process.poll() is not None
    assert blue.server.process.poll() is None
    ended(blue)
    ended(green)


def test_a_server_that_nothing_uses_ends(
    servers: KeptForkServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_forkservers, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(kept_forkservers, "IDLE_SECONDS", 0.3)
    child = forked(servers, "red")
    assert asked(child)
    time.sleep(0.6)
    assert child.server.process.poll() is None, "it has a child"
    ended(child)
    assert child.server.process.wait(10.0) is not None
    until = time.monotonic() + 10.0
    while servers._retiring is not None and time.monotonic() < until:
        time.sleep(0.01)
    assert servers._retiring is None
    again = forked(servers, "red")
    assert asked(again)
    ended(again)


def test_several_threads_get_a_child_each(servers: KeptForkServers) -> None:
    children: list[Any] = []
    threads = [
        threading.Thread(target=lambda: children.append(forked(servers, "red"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {asked(child).split()[1] for child in children} == {"red"}
    assert len({child.pid for child in children}) == 8
    assert len(servers._kept) == 1
    for child in children:
        ended(child)


def test_children_end_with_the_pipes_of_their_run(servers: KeptForkServers) -> None:
    """As when the run is killed: nobody tells them."""
    child = forked(servers, "red")
    assert asked(child)
    running = psutil.Process(child.pid)
    child.kill()
    running.wait(10.0)
    ended(child)
