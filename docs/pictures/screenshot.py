"""A picture of a page, for the README. Needs a Chromium (chromium or google-chrome on PATH)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def take(page: Path, picture: Path, width: int, height: int, most: int) -> None:
    """Write ``picture`` (PNG, ``width`` × ``height`` pixels); ends the program where it has more
    than ``most`` bytes."""
    browser = next(
        filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None
    )
    if browser is None:
        sys.exit("no chromium or google-chrome on PATH")
    with tempfile.TemporaryDirectory() as profile:
        options = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--window-size={width},{height}",
        ]
        arguments = [
            *options,
            f"--user-data-dir={profile}",
            "--virtual-time-budget=3000",
            f"--screenshot={picture}",
        ]
        subprocess.run(
            [browser, *arguments, page.resolve().as_uri()], check=True, stderr=subprocess.DEVNULL
        )
    size = picture.stat().st_size
    print(f"wrote {picture} ({size:,} bytes)")
    if size > most:
        sys.exit(f"that is more than {most:,} bytes: make the window smaller")
