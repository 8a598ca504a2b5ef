"""A page or a drawing as PNG, by a browser that is there: Chromium, Chrome or Edge, without its
window."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..errors import UsageError

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "msedge",
    "microsoft-edge",
)
SECONDS = 60.0
_SIZE = re.compile(r'width="(\d+)" height="(\d+)"')


def browser() -> str | None:
    """The path of a browser that can draw, or None."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


def photograph(drawing: Path, picture: Path) -> Path:
    """Draw an SVG file in its own size, and return ``picture``. Raises UsageError where no browser
    is there, or it fails."""
    program = browser()
    if program is None:
        raise UsageError(
            f"no browser to draw {picture.name} with: put one of {', '.join(BROWSERS[:3])} on "
            f"the PATH, or use {drawing}"
        )
    size = _SIZE.search(drawing.read_text(encoding="utf-8"))
    width, height = (int(size[1]), int(size[2])) if size else (1200, 900)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
        ]
        command = [
            program,
            *options,
            f"--window-size={width},{height}",
            f"--screenshot={picture.absolute()}",
            drawing.absolute().as_uri(),
        ]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise UsageError(
                f"{program} did not draw {picture.name} within {SECONDS:.0f} s"
            ) from None
    if not picture.is_file():
        raise UsageError(
            f"{program} drew no {picture.name}: "
            f"{(done.stderr.strip().splitlines() or ['it gave no reason'])[-1][:200]}"
        )
    return picture
