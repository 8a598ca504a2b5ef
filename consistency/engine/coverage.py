"""Coverage: of the names of PyTorch's operator database, the aten operators that declared operators
reach, and DirectML's kernels.

What an operator reaches is measured with the dispatcher on a few drawn cases, forward and backward,
never inferred from names.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import torch

from .. import operators
from ..backends.cpu import Cpu
from ..core.model import DIRECTIONS
from ..diagnose.evaluation import differentiates
from ..errors import UsageError
from ..generate.calls import opinfo
from ..generate.materialize import prepare
from ..generate.search import batch
from ..operators.aten_calls import AtenCallRecorder
from ..operators.declare import Operator
from ..reference.provable import Provability, provability
from .argument_coverage import Unvaried, dtypes_missing, dtypes_offered, unvaried
from .case_reach import VALUES, Reach, one_of_each_kind, reach

EXAMPLES = 6  # cases per operator and kind of dtype, in one round
TURNS = 6  # maximum, while new aten operators appear
# Why a name of the database or an aten operator is not covered (globs); the first match
# counts. Maintained by hand.
REASONS: tuple[tuple[str, str], ...] = (
    ("jiterator_*", "compiles CUDA code: no CPU"),
    ("torch._scaled_mm*", "float8 only"),
    ("torch.ops.aten.*", "internal entry of fused attention"),
    ("sparse.*", "sparse tensors"),
    ("to_sparse", "sparse tensors"),
    ("nn.functional.feature_alpha_dropout", "random"),
    ("chalf", "complex numbers of half precision"),
    ("broadcast_shapes", "computes shapes, no tensors"),
    ("aten::convolution*overrideable", "internal: the convolution of devices other than the CPU"),
    ("aten::_efficientzerotensor", "internal: a zero without memory"),
    ("aten::_index_put_impl_", "internal: what index_put_ becomes on other devices"),
    ("aten::_to_sparse", "sparse tensors"),
    ("aten::_copy_from*", "internal: copies between devices"),
    ("aten::_to_copy", "internal: what casts and copies become on other devices"),
    ("aten::_fused_adam*", "fused optimizer steps of CUDA"),
    ("aten::_pack_padded_sequence*", "ragged sequences"),
    ("aten::_amp_*", "gradient scaling of CUDA"),
    ("aten::_foreach_*", "lists of tensors"),
    ("aten::_thnn_*", "fused recurrent cells of CUDA"),
    ("aten::_cudnn*", "CUDA only"),
    ("aten::_local_scalar_dense", "internal: item() on one element"),
    ("aten::set_*", "internal: exchanges a tensor's storage"),
    ("aten::resize_*", "internal: changes a tensor's storage"),
    ("aten::_reshape_alias", "internal: what view becomes on other devices"),
    ("aten::is_set_to", "internal: compares storages"),
    ("aten::is_pinned", "internal: memory of the host"),
    ("aten::_pin_memory", "internal: memory of the host"),
    ("aten::record_stream", "internal: streams"),
    ("aten::*_backward", "not reached: torch's CPU computes this gradient with other operators"),
)  # fmt: skip
INTERNAL = (
    "internal",
    "CUDA",
    "fused",
    "compiles",
    "gradient scaling",
    "not reached: torch's CPU",
    "lists of tensors of",
)


@dataclass(frozen=True)
class Coverage:
    """``reached`` maps each operator to the aten operators that its cases reached. ``database`` is
    None if it is not installed."""

    operators: tuple[Operator, ...]
    reached: dict[str, frozenset[str]]
    backward: frozenset[str]
    database: tuple[str, ...] | None
    kernels: tuple[str, ...]
    why_no_database: str = ""
    problems: dict[str, str] = field(default_factory=dict)
    provability: tuple[Provability, ...] = ()
    offered: dict[str, frozenset[str]] | None = None
    unvaried: tuple[Unvaried, ...] = ()
    reach: tuple[Reach, ...] = ()

    @property
    def dtypes_missing(self) -> dict[str, str]:
        """Pairs of operator and dtype that torch takes and that are not drawn, with the reason."""
        return dtypes_missing(self.operators, self.offered or {})

    def dtype_pairs(self) -> tuple[int, int]:
        """How many pairs of operator and dtype that torch takes are drawn, and how many it
        takes."""
        taken = sum(map(len, (self.offered or {}).values()))
        return taken - len(self.dtypes_missing), taken

    @property
    def overloads(self) -> frozenset[str]:
        """Every overload of aten that was reached."""
        return frozenset().union(*(r.overloads for r in self.reach)) if self.reach else frozenset()

    def reaching(self) -> dict[str, int]:
        """How many operators with floating dtypes reach each class of values."""
        return {word: sum(word in r.values for r in self.reach) for word in VALUES}

    def noticed(self, direction: str) -> tuple[int, int]:
        """How many planted faults the shipped cases notice in a direction, of how many."""
        pairs = [r.noticed.get(direction, (0, 0)) for r in self.reach]
        return sum(n for n, _ in pairs), sum(of for _, of in pairs)

    def certified(self, direction: str) -> tuple[int, int]:
        """The number of operators certified in a direction, and of those with numbers to prove."""
        provable = [p for p in self.provability if p.direction == direction and p.asked]
        return sum(p.certified for p in provable), len(provable)

    @property
    def uncertified(self) -> dict[str, str]:
        """Operators whose elements cannot be certified, by name and direction, with the reason."""
        return {
            f"{p.operator} ({p.direction})": p.reason
            for p in self.provability
            if not (p.asked and p.certified)
        }

    @property
    def aten(self) -> frozenset[str]:
        """Every aten operator that was reached."""
        return frozenset().union(*self.reached.values()) if self.reached else frozenset()

    @property
    def missing_names(self) -> dict[str, str]:
        """The database's names that are not declared, with the reason."""
        declared = {o.name for o in self.operators}
        # torch has uniform_, the database calls it uniform
        declared |= {n[:-1] for n in declared if n.endswith("_") and not hasattr(torch, n[:-1])}
        return {name: reason(name) for name in self.database or () if name not in declared}

    @property
    def missing_kernels(self) -> dict[str, str]:
        """DirectML's kernels that no declared operator reached, with the reason."""
        declared = {o.name.rpartition(".")[2] for o in self.operators}
        return {
            kernel: self._why(kernel)
            for kernel in self.kernels
            if kernel not in self.aten
            and not (_is_composite(kernel) and kernel.removeprefix("aten::") in declared)
        }

    @property
    def unreachable_kernels(self) -> tuple[str, ...]:
        """Those of the missing kernels that no public operator reaches on the CPU."""
        return tuple(
            kernel for kernel, why in self.missing_kernels.items() if why.startswith(INTERNAL)
        )

    def _why(self, kernel: str) -> str:
        base = kernel.removesuffix("_")
        if kernel.endswith("_") and not kernel.endswith("__") and base in self.aten:
            return "in place; out of place it is reached"
        name = kernel.removeprefix("aten::")
        if name not in names_of_aten():
            return (
                f"internal: torch {torch.__version__.partition('+')[0]} has no operator of "
                f"this name"
            )
        return reason(kernel)

    def directions(self) -> Counter[str]:
        """The number of operators with each direction."""
        return Counter(d for o in self.operators for d in o.directions)

    def dtypes(self) -> Counter[str]:
        """The number of operators with each dtype."""
        return Counter(d for o in self.operators for d in o.dtypes)

    def families(self) -> dict[str, list[Operator]]:
        """Operators by family, in order."""
        result: dict[str, list[Operator]] = {}
        for operator in self.operators:
            result.setdefault(operator.family, []).append(operator)
        return result


def reason(name: str) -> str:
    """The recorded reason why an operator is not covered."""
    return next(
        (words for pattern, words in REASONS if fnmatch.fnmatchcase(name, pattern)),
        "not declared yet",
    )


def _is_composite(kernel: str) -> bool:
    """Whether torch's CPU decomposes it before the dispatcher sees it (linear, reshape …)."""
    with contextlib.suppress(RuntimeError):  # this torch lacks the name, or has overloads only
        return bool(
            torch._C._dispatch_has_kernel_for_dispatch_key(kernel, "CompositeImplicitAutograd")
        )
    return False


@functools.cache
def names_of_aten() -> frozenset[str]:
    """Every aten operator of this torch, without overloads."""
    names = (name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    return frozenset(name.removeprefix("aten::").partition(".")[0] for name in names)


def kernels() -> tuple[str, ...]:
    """The names of DirectML's kernels (torch-directml 0.2.5), without their overloads."""
    text = resources.files(__package__).joinpath("directml_kernels.txt").read_text(encoding="utf-8")
    return tuple(
        dict.fromkeys(
            line.partition(".")[0]
            for line in text.splitlines()
            if line and not line.startswith("#")
        )
    )


def measure(
    chosen: Iterable[Operator] | None = None,
    step: Callable[[str], None] = lambda name: None,
    examples: int = EXAMPLES,
) -> Coverage:
    """Run a few cases of every operator and record what the dispatcher sees. ``step`` is called
    before each operator."""
    measured = tuple(chosen if chosen is not None else operators.registry().values())
    reached: dict[str, frozenset[str]] = {}
    backward: set[str] = set()
    problems: dict[str, str] = {}
    proved: list[Provability] = []
    one_way: list[Unvaried] = []
    reached_values: list[Reach] = []
    for operator in measured:
        step(operator.name)
        try:
            aten_names = _aten_names(operator, examples)
            proved += [provability(operator, direction) for direction in operator.directions]
            one_way += unvaried(operator)
            reached_values.append(reach(operator))
        except Exception as error:  # one operator's draws must not cost the others
            aten_names, problems[operator.name] = {}, f"{type(error).__name__}: {str(error)[:120]}"
        reached[operator.name] = (
            frozenset().union(*aten_names.values()) if aten_names else frozenset()
        )
        backward |= aten_names.get("backward", set())
    names, why = _database()
    return Coverage(
        measured,
        reached,
        frozenset(backward),
        names,
        kernels(),
        why,
        problems,
        tuple(proved),
        dtypes_offered(measured),
        tuple(one_way),
        tuple(reached_values),
    )


def _database() -> tuple[tuple[str, ...] | None, str]:
    try:
        return tuple(dict.fromkeys(str(entry.name) for entry in opinfo.database())), ""
    except UsageError as error:
        return None, str(error)


def _aten_names(operator: Operator, examples: int) -> dict[str, set[str]]:
    cpu, reached = Cpu(), {direction: set[str]() for direction in DIRECTIONS}
    if operator.callable is None:
        return {}
    for dtype in one_of_each_kind(operator.dtypes):
        for seed in range(TURNS):
            before = {direction: len(names) for direction, names in reached.items()}
            varied = False
            for case in batch(operator, dtype, examples, seed):
                materials = prepare(case)
                for direction in (
                    operator.directions if differentiates(operator, dtype) else ("forward",)
                ):
                    with AtenCallRecorder() as recorder, warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        cpu.run(operator, materials, direction)
                    names = {name for name in recorder.names if name.startswith("aten::")}
                    varied = varied or bool(reached[direction] and names != reached[direction])
                    reached[direction] |= names
            if not varied or (
                seed and before == {direction: len(names) for direction, names in reached.items()}
            ):
                break  # all cases reach the same operators, or nothing new was reached
    return reached


def as_json(found: Coverage) -> dict[str, Any]:
    """The coverage as one JSON object."""
    return {
        "operators": len(found.operators),
        "backward": found.directions()["backward"],
        "dtypes": dict(found.dtypes()),
        "families": {
            family: [o.name for o in members] for family, members in found.families().items()
        },
        "database": None if found.database is None else len(found.database),
        "database_missing": found.missing_names,
        "aten": len(found.aten),
        "aten_backward": len(found.backward),
        "aten_by_operator": {name: sorted(names) for name, names in found.reached.items()},
        "kernels": len(found.kernels),
        "kernels_reached": len(found.kernels) - len(found.missing_kernels),
        "kernels_missing": found.missing_kernels,
        "kernels_unreachable": list(found.unreachable_kernels),
        "problems": found.problems,
        "certified": {direction: found.certified(direction)[0] for direction in DIRECTIONS},
        "uncertified": found.uncertified,
        "dtype_pairs": list(found.dtype_pairs()),
        "dtypes_missing": found.dtypes_missing,
        "overloads": len(found.overloads),
        "reach": {r.operator: r.to_json() for r in found.reach},
        "noticed": {direction: list(found.noticed(direction)) for direction in DIRECTIONS},
        "unvaried_arguments": [
            {"operator": u.operator, "argument": u.argument, "never": u.missing, "reason": u.reason}
            for u in found.unvaried
        ],
    }
