"""Makes the README's picture from a real run: python docs/pictures/make.py [OPERATOR…]"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console

from consistency import engine
from consistency.profiles import PROFILES
from consistency.report.terminal import Screen


def main() -> None:
    chosen = engine.settings(sys.argv[1:] or None, examples=PROFILES["quick"])
    screen = Screen()
    screen.console = Console(record=True, width=120, file=io.StringIO(), highlight=False, color_system="truecolor")
    engine.drive(chosen, [screen])
    picture = Path(__file__).with_name("run.svg")
    picture.write_text(screen.console.export_svg(title="consistency run"), encoding="utf-8")
    print(f"wrote {picture}")


if __name__ == "__main__":
    main()
