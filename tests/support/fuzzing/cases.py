"""Cases as an attacker would write them: kernels that check nothing, much work, much memory."""

from __future__ import annotations

import functools
import json
import random
from typing import Any

import torch

from . import hostile
from .contents import mutate_document

SHAPES = ([], [0], [1], [2], [5], [3, 4], [2, 3, 4], [1, 2, 3, 4], [17, 33], [0, 5])
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "bool", "complex64")
VALUES = (
    ["uniform", -1.0, 1.0], ["normal", 0.0, 4.0], ["integers", 0, 5], ["integers", -100000, 100000],
    ["tokens", -1.0, 1.0, "0", "nan", "inf", "max"], ["subnormal"], ["uniform", 0.0, 1e30],
)  # fmt: skip
# Work or memory that grows with one number of the case.
HEAVY: tuple[tuple[str, str, list[Any]], ...] = (
    ("operator.pow", "call/operator.pow", [3, 10**9]),
    ("operator.mul", "call/operator.mul", [[1], 10**9]),
    ("operator.mod", "call/operator.mod", ["%999999999d", 1]),
    ("operator.lshift", "call/operator.lshift", [1, 10**10]),
    ("torch.zeros", "call/torch.zeros", [[2**17, 2**17]]),
    ("torch.arange", "call/torch.arange", [10**10]),
    ("torch.eye", "call/torch.eye", [10**5]),
    ("torch.full", "call/torch.full", [[2**16, 2**16], 1.0]),
    ("torch.linspace", "call/torch.linspace", [0.0, 1.0, 10**10]),
    ("Tensor.data_ptr", "call/Tensor.data_ptr", ["T"]),
    ("Tensor.expand", "call/Tensor.expand", ["T", [2**31, 5]]),
    ("Tensor.repeat", "call/Tensor.repeat", ["T", 2**31]),
    ("Tensor.storage", "call/Tensor.storage", ["T"]),
    ("Tensor.numpy", "call/Tensor.numpy", ["T"]),
    ("Tensor.tolist", "call/Tensor.tolist", ["T"]),
    ("Tensor.__class__", "call/Tensor.__class__", ["T"]),
    ("torch.load", "call/torch.load", ["/etc/passwd"]),
    ("torch.save", "call/torch.save", ["T", "/tmp/x"]),
    ("torch.from_file", "call/torch.from_file", ["/etc/passwd"]),
    ("torch.hub.load", "call/torch.hub.load", ["x", "y"]),
    ("operator.attrgetter", "call/operator.attrgetter", ["__class__"]),
    ("operator.methodcaller", "call/operator.methodcaller", ["x"]),
    ("aten._reshape_alias", "aten/_reshape_alias.default", ["T", [2**20], [1]]),
    ("aten.as_strided", "aten/as_strided.default", ["T", [2**28], [0]]),
    ("aten.as_strided", "aten/as_strided.default", ["T", [4], [2**40]]),
    ("aten.set_", "aten/set_.source_Tensor_storage_offset", ["T", "T", 2**30, [4], [1]]),
    ("aten.resize_", "aten/resize_.default", ["T", [2**33]]),
    ("aten._convert_indices_from_coo_to_csr", "aten/_convert_indices_from_coo_to_csr.default",
     ["I", 10**6]),
    ("aten.from_file", "aten/from_file.default", ["/etc/passwd", False, 10]),
    ("exp", "", [{"tensor": {"base": [2**28], "dtype": "float32", "values": VALUES[0],
                             "stop": 1}}]),
    ("matmul", "", [{"tensor": {"base": [2**13, 2**13], "dtype": "float32", "values": VALUES[0],
                                "stop": 1}}] * 2),
    ("cumsum", "", [{"tensor": {"base": [2**26], "dtype": "float64", "values": VALUES[0],
                                "stop": 1}}, 0]),
)  # fmt: skip


@functools.cache
def overloads() -> tuple[Any, ...]:
    """Every schema that torch registered under ``aten``, sorted."""
    schemas = [s for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::")]
    return tuple(sorted(schemas, key=lambda s: (s.name, s.overload_name)))


def tensor(chosen: random.Random, dtype: str = "") -> dict[str, Any]:
    body: dict[str, Any] = {
        "base": list(chosen.choice(SHAPES)),
        "dtype": dtype or chosen.choice(DTYPES),
        "values": chosen.choice(VALUES),
        "stop": chosen.randrange(10_000),
    }
    if body["dtype"] in ("int64", "int32"):
        body["values"] = ["integers", *chosen.choice([(0, 3), (-5, 5), (-(2**31), 2**31 - 1)])]
    elif body["dtype"] == "bool":
        body["values"] = ["integers", 0, 2]
    return {"tensor": body}


def _argument(kind: str, chosen: random.Random, depth: int = 0) -> Any:
    """A value of the type that a schema names; sometimes of another."""
    if chosen.random() < 0.05:
        return hostile.value(chosen)
    match kind.removesuffix("?"):
        case _ if kind.endswith("?") and chosen.random() < 0.4:
            return None
        case "Tensor":
            return tensor(chosen, chosen.choice(["", "float32", "float32", "int64"]))
        case "int" | "SymInt" | "number" | "Scalar":
            return chosen.choice([0, 1, 2, 3, -1, 5, 2**20, 2**31, -(2**63), 2**62])
        case "float":
            return chosen.choice([0.0, 1.0, -1.0, 1e300, {"float": "nan"}, {"float": "inf"}])
        case "bool":
            return chosen.random() < 0.5
        case "str":
            return chosen.choice(["sum", "mean", "", "none", *hostile.NAMES])
        case "ScalarType":
            return {"dtype": chosen.choice(DTYPES)}
        case listed if listed.startswith("List[") or listed.endswith("]"):
            inner = listed.removeprefix("List[").partition("]")[0].partition("[")[0]
            many = chosen.choice([0, 1, 2, 2, 3, 4])
            return [_argument(inner, chosen, depth + 1) for _ in range(many if depth < 2 else 0)]
    return None


def kernel_case(chosen: random.Random) -> dict[str, Any]:
    """A call of any of torch's kernels with arguments of about the right types."""
    schema = chosen.choice(overloads())
    base, overload = schema.name.removeprefix("aten::"), schema.overload_name or "default"
    args, kwargs = [], {}
    for argument in schema.arguments:
        if argument.has_default_value() and chosen.random() < 0.5:
            continue
        made = _argument(str(argument.type).replace("Optional[Tensor]", "Tensor?"), chosen)
        if argument.kwarg_only or kwargs:
            kwargs[argument.name] = made
        else:
            args.append(made)
    return {
        "operator": f"aten.{base}",
        "dtype": "float32",
        "args": args,
        "kwargs": kwargs,
        "source": f"aten/{base}.{overload}",
    }


def heavy_case(chosen: random.Random) -> dict[str, Any]:
    operator, source, args = chosen.choice(HEAVY)
    stand_ins = {"T": tensor(chosen, "float32"), "I": tensor(chosen, "int64")}
    case = {
        "operator": operator,
        "dtype": chosen.choice(["float32", "float64"]),
        "args": [stand_ins.get(a, a) if isinstance(a, str) else a for a in args],
        "kwargs": {},
    }
    return case | ({"source": source} if source else {})


def line(chosen: random.Random, healthy: str) -> str:
    """A case's line of any of these kinds, or a mutation of a healthy one."""
    kind = chosen.random()
    if kind < 0.35:
        case: Any = heavy_case(chosen)
    elif kind < 0.65:
        case = kernel_case(chosen)
    else:
        case, _ = mutate_document(json.loads(healthy), chosen)
    if kind < 0.65 and chosen.random() < 0.2:
        case, _ = mutate_document(case, chosen)
    text = hostile.dumped(case, chosen).decode("utf-8", "surrogateescape").replace("\0", "")
    return text[:100_000]  # Linux takes 128 KB in one argument
