"""A year of nights on many machines, with planted changes: is each found, on its night, and is anything found that is not there?

    python benchmarks/nightly_simulation.py                      12 environments × 365 nights × 5,000 cases; about 1.5 GB in
    a temporary folder
    python benchmarks/nightly_simulation.py --environments 3 --nights 30 --cases 200

Bundles are written in the real format (results packed with gzip). Planted are: new failures (of one case of a group, or of all),
errors that grow or shrink within the budget, fixes; most on the night of a new driver, some on a night on which nothing else
changed. Not to be told as changes: cases that fail now and then, results that differ from night to night, drivers that change
bits and nothing else, one bad night of a machine, nights that are missing, half-written or damaged, bundles that are there twice,
and a corpus that grows.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import gzip
import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FIRST_NIGHT = datetime.datetime(2025, 11, 20, 1, 30, tzinfo=datetime.UTC)
APART = 25  # nights between two changes of one group
DEVICES = (
    ("directml", "NVIDIA GeForce RTX 3070", 31), ("directml", "AMD Radeon RX 6900 XT", 24), ("cuda", "NVIDIA H100", 550),
    ("directml", "Intel Arc A770", 32), ("cuda", "NVIDIA GeForce RTX 4090", 551), ("cpu", "Xeon AVX-512", 0),
)  # fmt: skip
FAMILIES = ("convolution", "matmul", "normalisation", "reduction", "unary")


@dataclass(frozen=True)
class Planted:
    """A change that is really there: in which environment and group, from which night on, and of which kind."""

    environment: str
    operator: str
    dtype: str
    direction: str
    night: int
    kind: str
    with_driver: bool


@dataclass
class World:
    """The size of it all, and the groups' names."""

    environments: int
    nights: int
    cases: int
    seed: int
    each: int = 10
    names: list[tuple[str, str, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        kinds = [(dtype, direction) for dtype in ("float32", "float16") for direction in ("forward", "backward")]
        for i in range(max(self.cases // self.each, 1)):
            family = FAMILIES[i // 4 % len(FAMILIES)]
            self.names.append((f"{family}.op{i // 4:03d}", *kinds[i % 4], family))


@dataclass
class Place:
    """An environment over the nights: verdict-relevant numbers by case and night, and what was planted."""

    label: str
    backend: str
    identities: list[dict[str, str]]
    size: NDArray[np.float32]  # log2 of × budget [cases, nights]
    odd: dict[int, NDArray[np.intp]]  # night: cases that time out on it
    joins: NDArray[np.int64]  # from which night on a case is in the corpus
    missing: set[int]
    halved: set[int]
    damaged: set[int]
    twice: set[int]
    planted: list[Planted]


def place(world: World, number: int) -> Place:
    """One environment's year."""
    rng = np.random.default_rng((world.seed, number))
    nights, each, groups = world.nights, world.each, len(world.names)
    backend, device, major = DEVICES[number % len(DEVICES)]
    label = f"{device.split()[-1].lower()}-{number:02d}"
    drivers = np.cumsum(rng.integers(25, 45, size=nights // 25 + 2))
    drivers = drivers[drivers < nights - 1]
    torches = np.array([night for night in (70, 160, 250, 330) if night < nights - 1])
    identities = [
        {
            "device": device, ("driver" if major else "microcode"): f"{major}.0.15.{4600 + 37 * int((drivers <= night).sum())}",
            "torch": f"2.{9 + int((torches <= night).sum())}.0", "threads": "8",
        }
        for night in range(nights)
    ]  # fmt: skip
    usual = np.minimum(rng.normal(-2.8, 0.7, groups).repeat(each) + rng.normal(0.0, 0.6, groups * each), -1.2)
    size = usual[:, None].repeat(nights, axis=1)
    for night in sorted({*drivers.tolist(), *torches.tolist()}):  # other kernels, as good as the old ones: each case by chance
        moved = (rng.random(groups) < 0.25).repeat(each)
        size[moved, night:] = usual[moved, None] + rng.normal(0.0, 0.35, (int(moved.sum()), 1))
    noisy = rng.random(groups) < 0.3
    spread = np.where(noisy, rng.uniform(0.02, 0.15, groups), 0.0).repeat(each)[:, None]
    size = np.minimum(size + spread * rng.standard_t(4, size.shape), -0.15)
    planted = list(_changes(world, rng, f"{label} · {backend}", size, drivers))
    busy = {(p.operator, p.dtype, p.direction) for p in planted}
    quiet = [g for g in range(groups) if world.names[g][:3] not in busy]
    for group in rng.choice(quiet, size=max(groups // 200, 1), replace=False):  # flakes
        for case in group * each + rng.choice(each, size=rng.integers(1, 4), replace=False):
            fails = rng.random(nights) < rng.uniform(0.02, 0.4)
            size[case, fails] = rng.uniform(2.0, 10.0, int(fails.sum()))
    joins = np.where(rng.random(groups * each) < 0.06, rng.integers(1, max(nights - 10, 2), groups * each), 0)
    odd = {
        int(n): rng.choice(groups * each, size=max(groups * each // 20, 1), replace=False)
        for n in rng.choice(nights - 1, size=1 + nights // 200)
    }
    rest = rng.permutation(np.arange(1, nights - 1))
    share = [max(nights // 60, 1), max(nights // 120, 1), max(nights // 90, 1), max(nights // 90, 1)]
    missing, halved, damaged, twice = (set(map(int, part)) for part in np.split(rest[: sum(share)], np.cumsum(share)[:-1]))
    return Place(label, backend, identities, size.astype(np.float32), odd, joins, missing, halved, damaged, twice, planted)


def _changes(
    world: World, rng: np.random.Generator, name: str, size: NDArray[np.float64], drivers: NDArray[np.int64]
) -> Iterator[Planted]:
    """Plant changes into ``size`` and tell what they are."""
    nights, each = world.nights, world.each
    free = list(rng.permutation(len(world.names)))

    def told(group: int, night: int, kind: str, driver: bool) -> Planted:
        operator, dtype, direction, _ = world.names[group]
        return Planted(name, operator, dtype, direction, int(night), kind, driver)

    for night in drivers:
        for kind in rng.choice(["new", "drifted", "calmed"], size=int(rng.integers(1, 4)), p=[0.5, 0.35, 0.15]):
            group = int(free.pop())
            yield told(group, night, kind, True)
            until = nights
            later = drivers[drivers >= night + APART]
            if kind == "new" and len(later) and rng.random() < 0.5:
                until = int(rng.choice(later))
                yield told(group, until, "fixed", True)
            _plant(rng, size, group, each, kind, night, until)
    for _ in range(max(nights // 90, 1)):  # a change of which the environment says nothing
        night, group = int(rng.integers(min(15, nights // 2), nights - 5)), int(free.pop())
        kind = str(rng.choice(["new", "drifted"]))
        yield told(group, night, kind, bool((drivers == night).any()))
        _plant(rng, size, group, each, kind, night, nights)


def _plant(rng: np.random.Generator, size: NDArray[np.float64], group: int, each: int, kind: str, night: int, until: int) -> None:
    cases = group * each + np.arange(each)
    if kind == "new":
        chosen = rng.choice(cases, size=int(rng.integers(1, each + 1)), replace=False)
        size[chosen, night:until] = rng.uniform(0.6, 16.0, (len(chosen), 1)) + 0.02 * rng.standard_normal(
            (len(chosen), until - night)
        )
    else:
        chosen = rng.choice(cases, size=int(rng.integers(int(each * 0.7), each + 1)), replace=False)
        move = rng.uniform(0.8, 2.5) * (1.0 if kind == "drifted" else -1.0)
        if kind == "drifted":  # all of it within the budget
            size[cases] += min(0.0, -0.35 - move - float(size[chosen].max()))
        size[chosen, night:until] += move


# --- writing ----------------------------------------------------------------------------------------------------------


def write(world: World, number: int, folder: Path) -> tuple[list[Planted], int]:
    """All bundles of one environment. Returns what was planted, and how many results were written."""
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
        lines = [
            f"{fronts[i]}{_DIVERGENT if fails[i] else _ROUNDING}{rho[i]:.6g}{backs[i]}" for i in cases.tolist()
        ]  # fmt: skip
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
        _bundle(world, here, night, folder / here.label / f"{FIRST_NIGHT + datetime.timedelta(days=night):%Y-%m-%d}", text)
        if night in here.twice:
            source = folder / here.label / f"{FIRST_NIGHT + datetime.timedelta(days=night):%Y-%m-%d}"
            shutil.copytree(source, folder / "copied" / here.label / source.name)
    assert each
    return here.planted, many


_ROUNDING = '"rounding", "fails": false, "explanation": "rounding", "metrics": {"rho_max": '
_DIVERGENT = '"divergent", "fails": true, "explanation": "beyond the budget: TF32 inputs explain 99%", "cause": "tf32-inputs", ' \
    '"share": 0.99, "metrics": {"rho_max": '  # fmt: skip
# As long as what a real run keeps of a result for judging it again.
_COMPARED = '"worst": {"index": [0, 0], "actual": 0.28118038177490234, "expected": 0.28118034208960896}, ' \
    '"comparison": {"status": "ok", ' \
    '"outputs": [{"name": "out/0", "dtype": "float32", "shape": [8, 8], "elements": 64, ' \
    '"spans": [{"ulp_max": 1.25, "scaled_max": 0.25, ' \
    '"abs_max": 8.001440077149939e-08, "hull": [[0.23251561643208785, 9.175120767196365], ' \
    '[0.28141772259448494, 4.488738170970353]], ' \
    '"worst": [{"index": [3, 3], "actual": 2.8869427737276965e-08, "expected": 2.8869420097545635e-08}]}], "differing": 20, ' \
    '"rms": 1.2e-08, "positive": 9, "negative": 11, "outward": 10}]}'  # fmt: skip
_TIMEOUT = '"timeout", "fails": true, "explanation": "no answer in 30 s", "metrics": {}, "shapes": []}\n'


def _pieces(world: World, here: Place) -> tuple[list[str], list[str]]:
    """Of every case's line what comes before the verdict and what comes after × budget."""
    fronts, backs = [], []
    for group, (operator, dtype, direction, family) in enumerate(world.names):
        for i in range(world.each):
            short = operator.rpartition(".")[2]
            case = f"{short}-{(group * world.each + i) * 2654435761 % (1 << 40):010x}"
            fronts.append(
                f'{{"operator": "{operator}", "dtype": "{dtype}", "direction": "{direction}", "backend": "{here.backend}", '
                f'"case_id": "{case}", "family": "{family}", "verdict": '
            )
            backs.append(f', "ulp_max": 1.25}}, "output": "out/0", "shapes": ["[{i + 2}, 8]"], "sha256": "{case}", {_COMPARED}}}\n')
    return fronts, backs


def _explored(world: World, here: Place, rng: np.random.Generator, night: int, i: int) -> str:
    """A case of this night alone."""
    operator, dtype, direction, family = world.names[int(rng.integers(len(world.names)))]
    case = f"{operator.rpartition('.')[2]}-e{night:04x}{i:05x}"
    return (
        f'{{"operator": "{operator}", "dtype": "{dtype}", "direction": "{direction}", "backend": "{here.backend}", '
        f'"case_id": "{case}", '
        f'"family": "{family}", "verdict": {_ROUNDING}{rng.random() * 0.5:.6g}}}, "shapes": []}}\n'
    )


def _bundle(world: World, here: Place, night: int, folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    header = {
        "format": 2, "id": f"{here.label}-{night:04d}", "created": (FIRST_NIGHT + datetime.timedelta(days=night)).isoformat(),
        "label": here.label, "machine": {"os": "Windows 11", "cpu": "simulated"},
        "corpus": {"digest": "c0ffee", "cases": world.cases},
        "consistency": "0.1.0", "settings": {"seed": 0}, "complete": True,
    }  # fmt: skip
    (folder / "bundle.json").write_text(json.dumps(header), encoding="utf-8")
    (folder / "environment.json").write_text(json.dumps({here.backend: here.identities[night]}), encoding="utf-8")
    with gzip.open(folder / "results.jsonl.gz", "wb", compresslevel=1) as stream:
        stream.write(text.encode())


def make(world: World, folder: Path, processes: int = 2) -> tuple[list[Planted], int]:
    """All environments' bundles below ``folder``."""
    planted: list[Planted] = []
    many = 0
    if folder.exists():  # made before, with the same numbers
        return [one for number in range(world.environments) for one in place(world, number).planted], 0
    if processes < 2:
        for number in range(world.environments):
            mine, count = write(world, number, folder)
            planted += mine
            many += count
        return planted, many
    with concurrent.futures.ProcessPoolExecutor(processes) as pool:
        for mine, count in pool.map(write, [world] * world.environments, range(world.environments), [folder] * world.environments):
            planted += mine
            many += count
    return planted, many


# --- scoring ----------------------------------------------------------------------------------------------------------


@dataclass
class Score:
    """Of each kind how many were planted and found on their night; and what was told that was not there."""

    planted: dict[str, int]
    found: dict[str, int]
    missed: list[Planted]
    false: list[str]

    def share(self, *kinds: str) -> float:
        return sum(self.found.get(k, 0) for k in kinds) / max(sum(self.planted.get(k, 0) for k in kinds), 1)


def score(made, planted: Sequence[Planted]) -> Score:  # type: ignore[no-untyped-def]
    """Compare a board's turns with what was planted. The right night is the first one from then on that has the group's cases."""
    by_name = {environment.name: environment for environment in made.environments.values()}
    numbers = {(g.operator, g.dtype, g.direction): g.number for g in made.groups.values()}
    told = {(t.env, t.group, t.night, t.kind): t for t in made.turns}
    result = Score({}, {}, [], [])
    for one in planted:
        environment = by_name[one.environment]
        group = numbers[one.operator, one.dtype, one.direction]
        key = (environment.env, group, _right(made, environment, group, one.night), one.kind)
        result.planted[one.kind] = result.planted.get(one.kind, 0) + 1
        if told.pop(key, None) is not None:
            result.found[one.kind] = result.found.get(one.kind, 0) + 1
        else:
            result.missed.append(one)
    for (env, group, night, kind), turn in told.items():
        g = made.groups[group]
        words = f"{kind} {made.environments[env].name} {g.operator} {g.kind} night {night} "
        words += f"({turn.cases} of {turn.of} cases, {turn.before:.2f} → {turn.after:.2f} octaves)"
        result.false.append(words)
    return result


def _right(made, environment, group: int, night: int) -> int:  # type: ignore[no-untyped-def]
    """The place, among the nights there are, of the first at or after this one on which the group was tested."""
    wanted = (FIRST_NIGHT + datetime.timedelta(days=night)).replace(tzinfo=None)
    tested = made.lines[environment.env, group].tested
    return next(i for i, n in enumerate(environment.nights) if n.created >= wanted and tested[i] > 0)


def mornings(store, made, planted: Sequence[Planted], quiet: int, seed: int) -> dict[str, float]:  # type: ignore[no-untyped-def]
    """What would have been told on the mornings after planted changes, and on ``quiet`` others, without knowing what came later."""
    from consistency.matrix.history import Block, blocks, until
    from consistency.matrix.turns import follow

    rng = np.random.default_rng(seed)
    by_name = {environment.name: environment for environment in made.environments.values()}
    numbers = {(g.operator, g.dtype, g.direction): g.number for g in made.groups.values()}
    at: dict[int, dict[int, list[Planted]]] = {}
    truth: set[tuple[int, int, int]] = set()
    for one in planted:
        environment = by_name[one.environment]
        group = numbers[one.operator, one.dtype, one.direction]
        night = _right(made, environment, group, one.night)
        truth.add((environment.env, group, night))
        at.setdefault(environment.env, {}).setdefault(night, []).append(one)
    for environment in made.environments.values():
        for night in rng.choice(len(environment.nights) - 2, size=max(quiet // len(made.environments), 1)) + 2:
            at.setdefault(environment.env, {}).setdefault(int(night), [])
    counts = {"mornings": 0, "planted": 0, "told": 0, "silent": 0, "silent_told": 0, "false": 0}
    for environment in made.environments.values():
        fresh: dict[int, set[tuple[int, str]]] = {}
        for block in blocks(store.db, environment):
            for night in {*at[environment.env], *(n + 1 for n in at[environment.env])} & set(range(len(environment.nights))):
                known = Block(block.groups, block.starts, block.items, block.state[:, : night + 1], block.size[:, : night + 1])
                turns, _ = follow(until(environment, night + 1), known)
                fresh.setdefault(night, set()).update((t.group, t.kind) for t in turns if t.night == night or t.night == night - 1)
        for night, ones in at[environment.env].items():
            for one in ones:
                key = (numbers[one.operator, one.dtype, one.direction], one.kind)
                which = "planted" if one.with_driver else "silent"
                counts[which] += 1
                counts["told" if one.with_driver else "silent_told"] += key in fresh.get(
                    night if one.with_driver else night + 1, set()
                )
            counts["mornings"] += 1
            near = {night - 1, night}
            counts["false"] += sum(
                kind in ("new", "drifted", "untested") and not any((environment.env, group, n) in truth for n in near)
                for group, kind in fresh[night]
            )
    return counts


# --- the whole thing --------------------------------------------------------------------------------------------------


def spent() -> float:
    """CPU seconds of this process and its children."""
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


class Watch:
    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), spent()

    def __call__(self, what: str) -> None:
        wall, cpu = time.perf_counter(), spent()
        print(f"{what:<58} {wall - self.wall:8.1f} s  {cpu - self.cpu:8.1f} s CPU", flush=True)
        self.wall, self.cpu = wall, cpu


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=int, default=12)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mornings", type=int, default=60, help="how many of no particular night are judged as they were")
    parser.add_argument("--folder", type=Path, help="where to write; kept. Default: a temporary folder")
    parser.add_argument("--all", action="store_true", help="list everything missed and everything told that is not there")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        return simulate(options, options.folder or Path(scratch))


def simulate(options: argparse.Namespace, folder: Path) -> int:
    from consistency.matrix import board, finding, questions, store
    from consistency.matrix.site import write as write_site

    world = World(options.environments, options.nights, options.cases, options.seed)
    watch = Watch()
    planted, many = make(world, folder / "nights")
    used = sum(path.stat().st_size for path in (folder / "nights").rglob("*") if path.is_file())
    watch(f"writing {many:,} results in bundles ({used / 1e9:.2f} GB)")
    found, problems = finding.bundles([folder / "nights"])
    watch(f"finding {len(found):,} bundles")
    held = store.Store(folder / "store.duckdb")
    held.take(found)
    watch(f"reading them into the store ({(folder / 'store.duckdb').stat().st_size / 1e6:.0f} MB)")
    print(
        f"  {len(problems) + len(held.problems)} complaints, such as: "
        f"{(problems + held.problems)[0] if problems + held.problems else '–'}"
    )
    made = board.board(held)
    watch("finding changes, the board")
    site = write_site(made, folder / "site")
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    watch(f"writing the site ({size / 1e6:.0f} MB, {sum(1 for p in site.rglob('*') if p.is_file())} files)")
    held.take(finding.bundles([folder / "nights"])[0])
    watch(f"next morning with nothing new ({held.fresh - len(found)} bundles read)")
    result = score(made, planted)
    for sql in (
        "SELECT night, count(*) FROM changes WHERE regression GROUP BY night ORDER BY night",
        "SELECT environment, count(*), avg(fails::INT) FROM results GROUP BY environment",
        "SELECT operator, max(rho) FROM results WHERE fails GROUP BY operator ORDER BY 2 DESC LIMIT 20",
    ):  # fmt: skip
        answer = list(questions.ask(held, sql).rows)
        watch(f"{len(answer)} rows: {sql[:44]}…")
        held.close()
        held = store.Store(folder / "store.duckdb")
    verdict = report(world, result, options.all)
    told = mornings(held, made, planted, options.mornings, options.seed)
    watch(f"judging {told['mornings']} single mornings again")
    print(
        f"on the morning itself: {told['told']:.0f} of {told['planted']:.0f} with a new driver, "
        f"{told['silent_told']:.0f} of {told['silent']:.0f} without one a night later; "
        f"{told['false']:.0f} false in {told['mornings']:.0f} mornings of one environment"
    )
    return verdict


def report(world: World, result: Score, everything: bool) -> int:
    months = world.nights / 30.4
    for kind, count in sorted(result.planted.items()):
        print(f"{kind:<9} {result.found.get(kind, 0):4d} of {count:4d} planted found on the right night")
    regressions = [words for words in result.false if words.startswith(("new", "drifted", "untested"))]
    print(
        f"false alarms over {months:.1f} months: {len(regressions)}; "
        f"other changes told that are not there: {len(result.false) - len(regressions)}"
    )
    for line in [*map(str, result.missed), *result.false][: None if everything else 12]:
        print(" ", line)
    good = result.share("new", "drifted") >= 0.95 and len(regressions) <= months
    print("holds" if good else "does not hold", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
