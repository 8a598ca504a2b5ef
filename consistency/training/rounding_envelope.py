"""The rounding envelope: how far replicas of the float64 model, in which every number is perturbed
by half an ulp, get from it.

The band of a quantity is :data:`FACTOR` × the root of the replicas' mean square distance from the
float64 model. It grows where the model amplifies rounding, exponentially where it is chaotic, and a
defect stands out only as far as it is more than that.

Which branch a ReLU or a maximum takes is decided by rounding once in a while, perhaps in no replica
and yet on a backend. Where a quantity leaves the band and no operator is to blame,
:data:`FAR_REPLICAS` replicas are perturbed a hundred times as much, which take a hundred times as
many other branches; their largest distance belongs to the band, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .findings import Curve, Layer
from .reference_samples import Distances, Key, ReferenceTrace, joint, norm, sizes

REPLICAS = 6
FACTOR = 10.0
FAR_REPLICAS, FAR_SCALE = (
    8,
    100.0,
)  # replicas and their scale in ½ ulp, where it matters which branch a number takes
_NEIGHBORS = (
    4  # steps before and after: a loss may cross that of float64 by chance in all replicas at once
)
_FLOOR = 4 * 2.0**-24  # of a quantity's own size: what is copied may be rounded once
_FIELDS = {
    "output": "output", "gradient": "gradient", "parameter gradient": "parameter_gradient",
    "buffer": "buffer",
    "optimizer state": "optimizer_state", "parameter": "parameter",
}  # fmt: skip


class RoundingEnvelope:
    """The bands of everything that was tapped, from the distances of the replicas."""

    def __init__(
        self,
        reference: ReferenceTrace,
        replicas: Sequence[Distances],
        far: Sequence[Distances] = (),
    ) -> None:
        self._reference, self._replicas, self._far = reference, replicas, far

    def with_far(self, far: Sequence[Distances]) -> RoundingEnvelope:
        """The same envelope with the distances of replicas that were perturbed more strongly."""
        return RoundingEnvelope(self._reference, self._replicas, far)

    def of(self, key: Key) -> float:
        factor = (
            FACTOR**2 if key.kind == "optimizer state" else FACTOR
        )  # most of it is made of squares of gradients
        near = self._band(
            [replica.by_key.get(key, 0.0) for replica in self._replicas], self._size(key), factor
        )
        return max(
            [near, *(factor / FACTOR * replica.by_key.get(key, 0.0) for replica in self._far)]
        )

    def curve(self, name: str, kind: str, distances: Distances) -> Curve | None:
        """A curve of everything of one kind together."""
        own_distances = joint(distances.by_key, kind)
        if not own_distances:
            return None
        reference_sizes, replica_distances = (
            dict(sizes(self._reference, kind)),
            [joint(replica.by_key, kind) for replica in self._replicas],
        )
        far = [joint(replica.by_key, kind) for replica in self._far]
        steps = tuple(sorted(own_distances))
        raw = {
            step: self._band(
                [replica.get(step, 0.0) for replica in replica_distances],
                reference_sizes.get(step, 0.0),
            )
            for step in steps
        }
        raw = {
            step: max([band, *(replica.get(step, 0.0) for replica in far)])
            for step, band in raw.items()
        }
        values, reference = (), ()
        if kind == "loss":
            found = {
                key.step: float(v.reshape(-1)[0])
                for key, v in self._reference.by_key.items()
                if key.kind == "loss" and v.size
            }
            values = tuple(distances.values.get(step, math.nan) for step in steps)  # type: ignore[assignment]
            reference = tuple(found.get(step, math.nan) for step in steps)  # type: ignore[assignment]
        near = _neighborhood_maximum(raw, steps)
        return Curve(
            name,
            steps,
            tuple(own_distances[s] for s in steps),
            tuple(near[s] for s in steps),
            values,
            reference,
        )

    def ratios(self, distances: Distances) -> dict[Key, float]:
        """Every distance × its band, in the order in which things were computed."""
        by_name: dict[tuple[str, str], dict[int, float]] = {}
        for key in self._reference.by_key:
            by_name.setdefault((key.kind, key.name), {})[key.step] = self.of(key)
        near = {
            name: _neighborhood_maximum(found, sorted(found)) for name, found in by_name.items()
        }
        found = {}
        for key in self._reference.by_key:
            if key in distances.by_key:
                found[key] = ratio_to_band(
                    distances.by_key[key], near[key.kind, key.name][key.step]
                )
        return found

    def _size(self, key: Key) -> float:
        return norm(self._reference.by_key[key])

    @staticmethod
    def _band(found: Sequence[float], size: float, factor: float = FACTOR) -> float:
        finite = [value for value in found if value < math.inf]
        if len(finite) < len(found):
            return math.inf  # rounding alone leads to infinities here
        mean = sum(value * value for value in finite) / max(len(finite), 1)
        return factor * math.sqrt(mean) + _FLOOR * size


def ratio_to_band(distance: float, band: float) -> float:
    """A distance × its band; where the band is 0, nothing may be apart."""
    return distance / band if band > 0.0 else math.inf if distance > 0.0 else 0.0


def _neighborhood_maximum(found: Mapping[int, float], steps: Sequence[int]) -> dict[int, float]:
    """The largest among the neighboring steps."""
    values = [found[step] for step in steps]
    return {
        step: max(values[max(0, i - _NEIGHBORS) : i + _NEIGHBORS + 1])
        for i, step in enumerate(steps)
    }


def layers(ratios: Mapping[Key, float]) -> tuple[Layer, ...]:
    """One row per layer or parameter, in the order in which they were computed."""
    rows: dict[str, dict[str, float]] = {}
    first: dict[str, int] = {}
    for key, value in ratios.items():
        if key.kind not in _FIELDS:
            continue
        name = (
            key.name.rpartition(" ")[0] if key.kind == "optimizer state" else key.name
        )  # that of the parameter
        row = rows.setdefault(name, {})
        row[_FIELDS[key.kind]] = max(row.get(_FIELDS[key.kind], 0.0), value)
        if value > 1.0:
            first[name] = min(first.get(name, key.step), key.step)
    return tuple(Layer(name, **row, first=first.get(name, 0)) for name, row in rows.items())


def first_outside(ratios: Mapping[Key, float]) -> Key | None:
    """The first quantity, in the order in which they were computed, that lies outside of its
    band."""
    return next(
        (
            key
            for key, value in sorted(ratios.items(), key=lambda item: item[0].step)
            if value > 1.0
        ),
        None,
    )
