"""Makes the README's picture of the matrix: python docs/pictures/matrix.py

The nights are simulated (benchmarks/nightly_simulation.py): six machines over 50 nights, the last one with a new driver on some.
Needs a Chromium (chromium or google-chrome on PATH).
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from consistency.matrix.board import board
from consistency.matrix.finding import bundles
from consistency.matrix.site import write
from consistency.matrix.store import Store

HERE = Path(__file__)
PICTURE = HERE.with_name("matrix.png")
WIDTH, HEIGHT = 1180, 1000
MOST_BYTES = 200_000
OPERATORS = {
    "nn.functional.conv2d": "convolution", "matmul": "matmul", "nn.functional.layer_norm": "normalisation", "sum": "reduction",
    "tanh": "unary", "nn.functional.interpolate": "interpolate", "linalg.solve": "linalg", "addmm": "matmul", "softmax": "softmax",
    "exp": "unary", "nn.functional.group_norm": "normalisation", "cumsum": "cumulative", "var": "reduction", "erf": "unary",
}  # fmt: skip


def simulation() -> Any:
    spec = importlib.util.spec_from_file_location("nightly_simulation", HERE.parents[2] / "benchmarks" / "nightly_simulation.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)
    if browser is None:
        sys.exit("no chromium or google-chrome on PATH")
    module = simulation()
    world = module.World(environments=6, nights=50, cases=40 * len(OPERATORS), seed=11)
    names = list(OPERATORS)
    world.names = [(names[i // 4], *one[1:3], OPERATORS[names[i // 4]]) for i, one in enumerate(world.names)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "nightly"
        planted, _ = module.make(world, folder, processes=1)
        last = max(one.night for one in planted if one.with_driver)
        for night in folder.glob("*/*"):
            if night.name > f"{module.FIRST_NIGHT + module.datetime.timedelta(days=int(last)):%Y-%m-%d}":
                shutil.rmtree(night)
        held = Store()
        held.take(bundles([folder])[0])
        site = write(board(held), Path(scratch) / "site")
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}"]
        arguments = [*options, f"--user-data-dir={scratch}/profile", "--virtual-time-budget=3000", f"--screenshot={PICTURE}"]
        subprocess.run([browser, *arguments, (site / "index.html").as_uri()], check=True, stderr=subprocess.DEVNULL)
    size = PICTURE.stat().st_size
    print(f"wrote {PICTURE} ({size:,} bytes)")
    if size > MOST_BYTES:
        sys.exit(f"that is more than {MOST_BYTES:,} bytes: make the window smaller")


if __name__ == "__main__":
    main()
