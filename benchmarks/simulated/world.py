"""A year on many machines, in numbers: how each case errs on each night, and which changes are
planted."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FIRST_NIGHT = datetime.datetime(2025, 11, 20, 1, 30, tzinfo=datetime.UTC)
APART = 25  # nights between two changes of one group
DEVICES = (
    ("directml", "NVIDIA GeForce RTX 3070", 31), ("directml", "AMD Radeon RX 6900 XT", 24), ("cuda",
    "NVIDIA H100", 550),
    ("directml", "Intel Arc A770", 32), ("cuda", "NVIDIA GeForce RTX 4090", 551), ("cpu",
    "Xeon AVX-512", 0),
)  # fmt: skip
FAMILIES = ("convolution", "matmul", "normalization", "reduction", "unary")


@dataclass(frozen=True)
class Planted:
    """A change that is really there: in which environment and group, from which night on, and of
    which kind."""

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
        kinds = [
            (dtype, direction)
            for dtype in ("float32", "float16")
            for direction in ("forward", "backward")
        ]
        for i in range(max(self.cases // self.each, 1)):
            family = FAMILIES[i // 4 % len(FAMILIES)]
            self.names.append((f"{family}.op{i // 4:03d}", *kinds[i % 4], family))


@dataclass
class Place:
    """An environment over the nights: verdict-relevant numbers by case and night, and what was
    planted."""

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
            "device": device,
            ("driver" if major else "microcode"): (
                f"{major}.0.15.{4600 + 37 * int((drivers <= night).sum())}"
            ),
            "torch": f"2.{9 + int((torches <= night).sum())}.0", "threads": "8",
        }
        for night in range(nights)
    ]  # fmt: skip
    usual = np.minimum(
        rng.normal(-2.8, 0.7, groups).repeat(each) + rng.normal(0.0, 0.6, groups * each), -1.2
    )
    size = usual[:, None].repeat(nights, axis=1)
    for night in sorted(
        {*drivers.tolist(), *torches.tolist()}
    ):  # other kernels, as good as the old ones: each case by chance
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
    joins = np.where(
        rng.random(groups * each) < 0.06, rng.integers(1, max(nights - 10, 2), groups * each), 0
    )
    odd = {
        int(n): rng.choice(groups * each, size=max(groups * each // 20, 1), replace=False)
        for n in rng.choice(nights - 1, size=1 + nights // 200)
    }
    rest = rng.permutation(np.arange(1, nights - 1))
    share = [
        max(nights // 60, 1),
        max(nights // 120, 1),
        max(nights // 90, 1),
        max(nights // 90, 1),
    ]
    missing, halved, damaged, twice = (
        set(map(int, part)) for part in np.split(rest[: sum(share)], np.cumsum(share)[:-1])
    )
    return Place(
        label,
        backend,
        identities,
        size.astype(np.float32),
        odd,
        joins,
        missing,
        halved,
        damaged,
        twice,
        planted,
    )


def _changes(
    world: World,
    rng: np.random.Generator,
    name: str,
    size: NDArray[np.float64],
    drivers: NDArray[np.int64],
) -> Iterator[Planted]:
    """Plant changes into ``size`` and tell what they are."""
    nights, each = world.nights, world.each
    free = list(rng.permutation(len(world.names)))

    def told(group: int, night: int, kind: str, driver: bool) -> Planted:
        operator, dtype, direction, _ = world.names[group]
        return Planted(name, operator, dtype, direction, int(night), kind, driver)

    for night in drivers:
        for kind in rng.choice(
            ["new", "error_grew", "error_shrank"], size=int(rng.integers(1, 4)), p=[0.5, 0.35, 0.15]
        ):
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
        kind = str(rng.choice(["new", "error_grew"]))
        yield told(group, night, kind, bool((drivers == night).any()))
        _plant(rng, size, group, each, kind, night, nights)


def _plant(
    rng: np.random.Generator,
    size: NDArray[np.float64],
    group: int,
    each: int,
    kind: str,
    night: int,
    until: int,
) -> None:
    cases = group * each + np.arange(each)
    if kind == "new":
        chosen = rng.choice(cases, size=int(rng.integers(1, each + 1)), replace=False)
        size[chosen, night:until] = rng.uniform(
            0.6, 16.0, (len(chosen), 1)
        ) + 0.02 * rng.standard_normal((len(chosen), until - night))
    else:
        chosen = rng.choice(cases, size=int(rng.integers(int(each * 0.7), each + 1)), replace=False)
        move = rng.uniform(0.8, 2.5) * (1.0 if kind == "error_grew" else -1.0)
        if kind == "error_grew":  # all of it within the budget
            size[cases] += min(0.0, -0.35 - move - float(size[chosen].max()))
        size[chosen, night:until] += move
