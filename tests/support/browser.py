"""A headless Chromium, driven over its DevTools pipe (messages end with a zero byte): no network,
no driver, no library."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if sys.platform != "win32":
    import fcntl

NAMES = ("chromium", "google-chrome", "chromium-browser", "google-chrome-stable", "chrome")
SECONDS = 60.0
# The browser reads from 3 and writes to 4. A process in between, for a fork that runs Python is
# none for a process with threads.
CONNECT = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)


def program() -> str:
    """Where the browser is; skips the test where there is none."""
    if sys.platform == "win32":
        pytest.skip("the browser's pipe is inherited by number, which Windows does not know")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser here: none of {', '.join(NAMES)} is on PATH")
    return found


class Browser:
    """One page of a browser. ``problems`` collects what its console complains about, ``fetched``
    every address it asked for."""

    def __init__(self, folder: Path) -> None:
        to_it, self._out = os.pipe()
        self._in, from_it = os.pipe()
        options = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
            "--no-first-run", "--hide-scrollbars",
            "--disable-background-networking", "--disable-component-update",
            f"--user-data-dir={folder}", "about:blank",
        ]  # fmt: skip
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (to_it, from_it)]
        arguments = [sys.executable, "-c", CONNECT, *map(str, ends), program(), *options]
        self._process = subprocess.Popen(
            arguments,
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (to_it, from_it, *ends):
            os.close(end)
        self._rest, self._next = b"", 0
        self._session = ""
        self._events: list[dict[str, Any]] = []
        self.problems: list[str] = []
        self.fetched: list[str] = []

    def open(self) -> None:
        """The page that everything is about."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self) -> None:
        os.close(self._out)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol and wait for its answer."""
        self._next += 1
        number = self._next
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._in], [], [], SECONDS)[0]:
                raise RuntimeError(f"the browser says nothing for {SECONDS:.0f} s")
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise RuntimeError("the browser ended")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        about = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                details = about["exceptionDetails"]
                self.problems.append(
                    details.get("exception", {}).get("description", details["text"])
                )
            case "Runtime.consoleAPICalled" if about["type"] in ("error", "warning", "assert"):
                self.problems.append(str([item.get("value") for item in about["args"]]))
            case "Log.entryAdded" if about["entry"]["level"] in ("error", "warning"):
                self.problems.append(about["entry"]["text"])
            case "Network.requestWillBeSent":
                self.fetched.append(about["request"]["url"])
            case "Page.loadEventFired":
                self._events.append(message)

    def show(
        self,
        path: Path,
        fragment: str = "",
        *,
        width: int = 1200,
        height: int = 900,
        dark: bool = False,
    ) -> None:
        """Load a file in a window of this size, from nothing."""
        phone = width < 700
        self._metrics = {
            "width": width,
            "height": height,
            "deviceScaleFactor": 2 if phone else 1,
            "mobile": phone,
        }
        self.send("Emulation.setDeviceMetricsOverride", **self._metrics)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=scheme)
        self.load("about:blank")
        self.problems.clear()
        self.fetched.clear()
        self.load(path.as_uri() + fragment)

    def load(self, address: str) -> None:
        self._events.clear()
        self.send("Page.navigate", url=address)
        end = time.monotonic() + SECONDS
        while not self._events:
            assert time.monotonic() < end, f"{address} does not load"
            self._message()

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited where it is a promise."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(
                answer["exceptionDetails"]
                .get("exception", {})
                .get("description", answer["exceptionDetails"]["text"])
            )
        return answer["result"].get("value")

    def press(self, key: str, *, shift: bool = False) -> None:
        codes = {
            "Tab": 9, "Enter": 13, "ArrowRight": 39, "ArrowLeft": 37, "ArrowDown": 40,
            "ArrowUp": 38, "End": 35, "Home": 36,
        }  # fmt: skip
        about = {
            "key": key,
            "code": key,
            "windowsVirtualKeyCode": codes[key],
            "modifiers": 8 if shift else 0,
        }
        text = {"text": "\r"} if key == "Enter" else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", **about, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", **about)

    def picture(self, path: Path, *, whole: bool = False) -> Path:
        """A screenshot of the window, or, in a window that is as high as the page (up to 8,000), of
        all of it."""
        if whole:
            height = min(self.run("document.documentElement.scrollHeight"), 8000)
            self.send("Emulation.setDeviceMetricsOverride", **self._metrics | {"height": height})
            self.run(
                "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
            )
        image = self.send("Page.captureScreenshot", format="png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(image["data"]))
        return path


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    opened = Browser(folder)
    try:
        opened.open()
        yield opened
    finally:
        opened.close()
