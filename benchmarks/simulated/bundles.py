"""A year's nights as bundles in the real format, results packed with gzip."""

from __future__ import annotations

import concurrent.futures
import datetime
import gzip
import json
import shutil
from pathlib import Path

import numpy as np

from .world import FIRST_NIGHT, Place, Planted, World, place


def write(world: World, number: int, folder: Path) -> tuple[list[Planted], int]:
    """All bundles of one environment.

    Returns what was planted, and how many results were written."""
    here = place(world, number)
    each = world.each
    fronts, backs = _pieces(world, here)
    rng = np.random.default_rng((world.seed, number, 1))
    many = 0
    for night in range(world.nights):
        if night in here.missing:
            continue
        sizes = here.size[:, night]
        fails = sizes > 0.0
        cases = np.flatnonzero(here.joins <= night)
        rho = np.exp2(sizes)
        verdicts = [_DIVERGENT if failing else _ROUNDING for failing in fails]
        lines = [f"{fronts[i]}{verdicts[i]}{rho[i]:.6g}{backs[i]}" for i in cases.tolist()]
        for i in here.odd.get(night, ()):
            if i < len(lines):
                lines[i] = fronts[cases[i]] + _TIMEOUT
        lines += [_explored(world, here, rng, night, i) for i in range(max(len(cases) // 100, 1))]
        many += len(lines)
        text = "".join(lines)
        if night in here.halved:
            text = text[: int(len(text) * 0.6)]
        if night in here.damaged:
            text = text[:1000] + "{garbage\n" + text[1000 + text[1000:].index("\n") + 1 :]
        _bundle(
            world,
            here,
            night,
            folder / here.label / f"{FIRST_NIGHT + datetime.timedelta(days=night):%Y-%m-%d}",
            text,
        )
        if night in here.twice:
            source = (
                folder / here.label / f"{FIRST_NIGHT + datetime.timedelta(days=night):%Y-%m-%d}"
            )
            shutil.copytree(source, folder / "copied" / here.label / source.name)
    assert each
    return here.planted, many


_ROUNDING = '"rounding", "fails": false, "explanation": "rounding", "metrics": {"rho_max": '
_DIVERGENT = (
    '"divergent", "fails": true, "explanation": "beyond the budget: TF32 inputs explain 99%", '
    '"cause": "tf32-inputs", "share": 0.99, "metrics": {"rho_max": '
)
# As long as what a real run keeps of a result for judging it again.
_COMPARED = (
    '"worst": {"index": [0, 0], "actual": 0.28118038177490234, "expected": 0.28118034208960896}, '
    '"comparison": {"status": "ok", '
    '"outputs": [{"name": "out/0", "dtype": "float32", "shape": [8, 8], "elements": 64, '
    '"spans": [{"ulp_max": 1.25, "scaled_max": 0.25, '
    '"abs_max": 8.001440077149939e-08, "hull": [[0.23251561643208785, 9.175120767196365], '
    "[0.28141772259448494, 4.488738170970353]], "
    '"worst": [{"index": [3, 3], '
    '"actual": 2.8869427737276965e-08, "expected": 2.8869420097545635e-08}]}], '
    '"differing": 20, '
    '"rms": 1.2e-08, "positive": 9, "negative": 11, "outward": 10}]}'
)
_TIMEOUT = (
    '"timeout", "fails": true, "explanation": "no answer in 30 s", "metrics": {}, "shapes": []}\n'
)


def _pieces(world: World, here: Place) -> tuple[list[str], list[str]]:
    """Of every case's line what comes before the verdict and what comes after × budget."""
    fronts, backs = [], []
    for group, (operator, dtype, direction, family) in enumerate(world.names):
        for i in range(world.each):
            short = operator.rpartition(".")[2]
            case = f"{short}-{(group * world.each + i) * 2654435761 % (1 << 40):010x}"
            fronts.append(
                f'{{"operator": "{operator}", "dtype": "{dtype}", "direction": "{direction}", '
                f'"backend": "{here.backend}", '
                f'"case_id": "{case}", "family": "{family}", "verdict": '
            )
            backs.append(
                f', "ulp_max": 1.25}}, "output": "out/0", '
                f'"shapes": ["[{i + 2}, 8]"], "sha256": "{case}", {_COMPARED}}}\n'
            )
    return fronts, backs


def _explored(world: World, here: Place, rng: np.random.Generator, night: int, i: int) -> str:
    """A case of this night alone."""
    operator, dtype, direction, family = world.names[int(rng.integers(len(world.names)))]
    case = f"{operator.rpartition('.')[2]}-e{night:04x}{i:05x}"
    return (
        f'{{"operator": "{operator}", "dtype": "{dtype}", "direction": "{direction}", '
        f'"backend": "{here.backend}", '
        f'"case_id": "{case}", '
        f'"family": "{family}", "verdict": {_ROUNDING}{rng.random() * 0.5:.6g}}}, "shapes": []}}\n'
    )


def _bundle(world: World, here: Place, night: int, folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    header = {
        "format": 2, "id": f"{here.label}-{night:04d}",
        "created": (FIRST_NIGHT + datetime.timedelta(days=night)).isoformat(),
        "label": here.label, "machine": {"os": "Windows 11", "cpu": "simulated"},
        "corpus": {"digest": "c0ffee", "cases": world.cases},
        "consistency": "0.1.0", "settings": {"seed": 0}, "complete": True,
    }  # fmt: skip
    (folder / "bundle.json").write_text(json.dumps(header), encoding="utf-8")
    (folder / "environment.json").write_text(
        json.dumps({here.backend: here.identities[night]}), encoding="utf-8"
    )
    with gzip.open(folder / "results.jsonl.gz", "wb", compresslevel=1) as stream:
        stream.write(text.encode())


def make(world: World, folder: Path, processes: int = 2) -> tuple[list[Planted], int]:
    """All environments' bundles below ``folder``."""
    planted: list[Planted] = []
    many = 0
    if folder.exists():  # made before, with the same numbers
        return [
            one for number in range(world.environments) for one in place(world, number).planted
        ], 0
    if processes < 2:
        for number in range(world.environments):
            mine, count = write(world, number, folder)
            planted += mine
            many += count
        return planted, many
    with concurrent.futures.ProcessPoolExecutor(processes) as pool:
        for mine, count in pool.map(
            write,
            [world] * world.environments,
            range(world.environments),
            [folder] * world.environments,
        ):
            planted += mine
            many += count
    return planted, many
