"""Names under which people know an operator: with a module before it (``torch.``, ``F.``,
``Tensor.``, ``aten::``), torch's aliases (``clip``, ``special.expit``), and layers of ``torch.nn``.

Which function is an alias of which, torch's documentation says; the few of which it does not are
listed here.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Any

import torch

_FUNCTIONAL = "nn.functional."
_ATEN = ("torch.ops.aten.", "aten::", "aten.")
_PREFIXES = {
    "torch.nn.functional.": _FUNCTIONAL, "functional.": _FUNCTIONAL, "F.": _FUNCTIONAL,
    "torch.Tensor.": "", "Tensor.": "", "torch._C._nn.": "", "torch.functional.": "", "torch.": "",
}  # fmt: skip
_MODULES = ("", _FUNCTIONAL, "linalg.", "special.", "fft.")
_ATEN_MODULES = {f"{name.rstrip('.')}_": name for name in _MODULES[2:]}
_ALIAS = re.compile(r"\b[Aa]lias (?:for|of) :\w+:`~?(?:torch\.)?(\w[\w.]*)`")
# Aliases of which torch's documentation does not speak, or which were deprecated.
_OTHERS = {
    "special.expit": "sigmoid", "special.gammaln": "lgamma", "special.psi": "digamma",
    "special.multigammaln": "mvlgamma", "special.gammainc": "igamma",
    "special.gammaincc": "igammac", "frobenius_norm": "linalg.matrix_norm",
    "nuclear_norm": "linalg.matrix_norm", "constant_pad_nd": "nn.functional.pad",
    "nn.functional.upsample": "nn.functional.interpolate",
    "nn.functional.upsample_nearest": "nn.functional.interpolate",
    "nn.functional.upsample_bilinear": "nn.functional.interpolate",
    "native_layer_norm": "nn.functional.layer_norm",
    "native_batch_norm": "nn.functional.batch_norm",
    "native_group_norm": "nn.functional.group_norm",
    "grid_sampler": "nn.functional.grid_sample",
    "affine_grid_generator": "nn.functional.affine_grid",
    "chain_matmul": "linalg.multi_dot", "qr": "linalg.qr",
    "svd": "linalg.svd", "matrix_rank": "linalg.matrix_rank", "lstsq": "linalg.lstsq",
    "eig": "linalg.eig", "solve": "linalg.solve", "symeig": "linalg.eigh",
}  # fmt: skip
# Layers whose function is not called as they are.
_LAYERS = {
    "upsample": "interpolate", "upsamplingnearest": "interpolate",
    "upsamplingbilinear": "interpolate", "bceloss": "binary_cross_entropy",
    "bcewithlogitsloss": "binary_cross_entropy_with_logits", "rnn": "rnn_tanh",
    "maxunpool": "max_unpool", "lppool": "lp_pool",
}  # fmt: skip


def find_name(name: str, known: Container[str]) -> str | None:
    """The name in ``known`` (the registry's, or some of them) of the operator that a person calls
    ``name``; None if there is none."""
    return next((other for other in _candidates(name) if other in known), None)


def in_torch(name: str) -> bool:
    """Whether torch has a function of this name."""
    return any(_function(module + shortened(name)) is not None for module in _MODULES)


def _candidates(name: str) -> Iterator[str]:
    yield name
    plain = shortened(name).removesuffix("_with_indices")
    for each in (plain, *_aliases(plain)):
        yield from (module + each for module in _MODULES)
        last = each.rpartition(".")[2]
        if last != each and _function(each) is not None:  # special.i0 is i0
            yield last
            yield _FUNCTIONAL + last
    if plain.startswith("nn.") and not plain.startswith(_FUNCTIONAL):
        yield from _layer(plain.removeprefix("nn."))


def shortened(name: str) -> str:
    """The name without the modules before it (other than those of operators' names), and without
    an overload of ATen."""
    for prefix in _ATEN:
        if name.startswith(prefix):
            base, _, overload = name.removeprefix(prefix).partition(".")
            for short, module in _ATEN_MODULES.items():
                if base.startswith(short):
                    base = module + base.removeprefix(short)
            from . import by_aten_name

            base = by_aten_name().get(base, base)
            return f"{base}.out" if overload.endswith("out") else base
    for prefix, short in _PREFIXES.items():
        if name.startswith(prefix):
            return short + name.removeprefix(prefix)
    return name


def _aliases(plain: str) -> Iterator[str]:
    """The functions of which this is another name, in place where it is."""
    in_place = "_" if plain.endswith("_") and not plain.endswith("__") else ""
    base = plain.removesuffix(in_place) if in_place else plain
    seen = {base}
    while True:
        form = ".out" if base.endswith(".out") else ""
        base = base.removesuffix(form) if form else base
        told = _OTHERS.get(base) or _documented(base)
        if told is None or told in seen:
            return
        seen.add(told)
        yield told + in_place + form
        base = told


def _documented(base: str) -> str | None:
    function = _function(base) or _function(_FUNCTIONAL + base)
    found = _ALIAS.search(str(getattr(function, "__doc__", None) or ""))
    return found[1] if found else None


def _function(name: str) -> Any:
    """What torch, or else a tensor, has under this name."""
    for place in (torch, torch.Tensor):
        found: Any = place
        for part in name.split("."):
            found = getattr(found, part, None) if part.isidentifier() else None
        if callable(found) and not isinstance(found, type):
            return found
    return None


def _layer(name: str) -> Iterator[str]:
    """The functions of a layer: ``LayerNorm`` is layer_norm, ``BatchNorm2d`` batch_norm."""
    key = name.removeprefix("Lazy").lower()
    keys = [key, re.sub(r"\dd$", "", key), key.removesuffix("loss")]
    if re.fullmatch(r".*pad(\dd)?", key):
        keys.append("pad")
    for each in keys:
        dims = re.search(r"\dd$", key)
        other = _LAYERS.get(re.sub(r"\dd$", "", each))
        if other is not None:
            yield from (_FUNCTIONAL + other, other, _FUNCTIONAL + other + (dims[0] if dims else ""))
        for found in sorted({*dir(torch.nn.functional), *dir(torch)}):
            if found.replace("_", "") == each:
                yield from (_FUNCTIONAL + found, found)
        yield each
