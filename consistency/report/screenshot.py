"""Render an SVG file as PNG with an installed browser: headless Chromium, Chrome or Edge."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..core.files import write_bytes
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
    """The path of a supported browser, or None."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


def render_png(svg: Path, png: Path) -> Path:
    """Draw an SVG file in its own size and return ``png``. Raises UsageError if there is no browser
    or it fails."""
    browser_path = browser()
    if browser_path is None:
        raise UsageError(
            f"no browser to draw {png.name} with: put one of {', '.join(BROWSERS[:3])} on "
            f"the PATH, or use {svg}"
        )
    size = _SIZE.search(svg.read_text(encoding="utf-8"))
    width, height = (int(size[1]), int(size[2])) if size else (1200, 900)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        drawn = Path(profile) / png.name
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
        ]
        command = [
            browser_path,
            *options,
            f"--window-size={width},{height}",
            f"--screenshot={drawn}",
            svg.absolute().as_uri(),
        ]
        try:
            process = subprocess.run(
                command,
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise UsageError(
                f"{browser_path} did not draw {png.name} within {SECONDS:.0f} s"
            ) from None
        if not drawn.is_file():
            raise UsageError(
                f"{browser_path} drew no {png.name}: "
                f"{(process.stderr.strip().splitlines() or ['it gave no reason'])[-1][:200]}"
            )
        write_bytes(png, drawn.read_bytes())
    return png
