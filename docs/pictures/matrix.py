"""Makes the README's picture of the matrix: python docs/pictures/matrix.py

The nights are simulated (benchmarks/nightly_simulation.py): six machines over 50 nights, the last
one with a new driver on some. Needs a Chromium (chromium or google-chrome on PATH).
"""

from __future__ import annotations

import datetime
import shutil
import sys
import tempfile
from pathlib import Path

import screenshot

from consistency.report.history.bundle_sources import bundles
from consistency.report.history.site import write
from consistency.report.history.snapshot import snapshot
from consistency.report.history.store import Store

HERE = Path(__file__)
sys.path.insert(0, str(HERE.parents[2] / "benchmarks"))

from simulated.bundles import make  # noqa: E402
from simulated.world import FIRST_NIGHT, World  # noqa: E402

PICTURE = HERE.with_name("matrix.png")
WIDTH, HEIGHT = 1180, 1000
MOST_BYTES = 200_000
OPERATORS = {
    "nn.functional.conv2d": "convolution", "matmul": "matmul",
    "nn.functional.layer_norm": "normalization", "sum": "reduction",
    "tanh": "unary", "nn.functional.interpolate": "interpolate", "linalg.solve": "linalg",
    "addmm": "matmul", "softmax": "softmax",
    "exp": "unary", "nn.functional.group_norm": "normalization", "cumsum": "cumulative",
    "var": "reduction", "erf": "unary",
}  # fmt: skip


def main() -> None:
    world = World(environments=6, nights=50, cases=40 * len(OPERATORS), seed=11)
    names = list(OPERATORS)
    world.names = [
        (names[i // 4], *one[1:3], OPERATORS[names[i // 4]]) for i, one in enumerate(world.names)
    ]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "nightly"
        planted, _ = make(world, folder, processes=1)
        last = max(one.night for one in planted if one.with_driver)
        for night in folder.glob("*/*"):
            if night.name > f"{FIRST_NIGHT + datetime.timedelta(days=int(last)):%Y-%m-%d}":
                shutil.rmtree(night)
        held = Store()
        held.take(bundles([folder])[0])
        site = write(snapshot(held), Path(scratch) / "site")
        screenshot.take(site / "index.html", PICTURE, WIDTH, HEIGHT, MOST_BYTES)


if __name__ == "__main__":
    main()
