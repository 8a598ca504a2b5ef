"""Facts about the operators under ``aten::`` that torch's schemas lack, by name without
overload."""

from __future__ import annotations

import functools
import re
from typing import Any

import torch

from ...errors import UsageError
from .. import by_aten_name

NAMESPACE = "aten"
_OVERLOAD = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\.[a-zA-Z0-9_]+", re.ASCII)
# They read files, print, hand out or replace storage, change what a tensor is, or are made for
# torch's own tests.
_FORBIDDEN = re.compile(
    r"from_file|_print|_test_.*|.*_storage.*|set_|set_data|set|resize.*|_resize_.*|record_stream|"
    r"data|_pin_memory|pin_memory|_?nested_.*|_nested.*|.*sparse.*|_coalesced.*|retain_grad|"
    r"requires_grad_|_backward|_assert.*|_functional_assert.*|sym_.*|_cufft_.*|_dimI|_dimV|_nnz|"
    r"_indices|_values|.*quantize.*|q_.*|_make_dual.*|_fw_primal.*|_propagate_xla_data|"
    r"_lazy_clone|_sobol_engine_.*|_has_.*|_use_.*|_cudnn_init_.*|.*_copy_from.*|is_[a-z_]*|"
    r"_is_[a-z_]*|_version|output_nr|can_cast"
)
# They answer how a tensor is held, whatever numbers it holds.
METADATA_QUERIES = frozenset(
    {
        "size", "stride", "numel", "dim", "storage_offset", "is_same_size", "_fused_sdp_choice",
        "_has_same_storage_numel", "is_pinned", "_debug_has_internal_overlap", "_version",
    }
)  # fmt: skip
# The same numbers in the same memory, though the schema may call the result a new tensor.
VIEWS_BY_ANOTHER_NAME = frozenset(
    {"_unsafe_view", "_reshape_alias", "lift", "lift_fresh", "detach", "alias"}
)
VIEWS_OF_BITS = frozenset({"view_as_real", "view_as_complex", "_conj", "_neg_view"})
# Their numbers come from no tensor, though a tensor may say in which shape and dtype.
CONSTANTS = frozenset({"zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"})
# Nothing is rounded: numbers are moved, chosen, or get another sign. So it is in the forms in place
# (``clamp_``), too; two names hold of that form only.
MOVES = frozenset(
    {
        "_to_copy", "_unsafe_view", "abs", "amax", "amin", "bernoulli_", "cat", "clamp",
        "clamp_max", "clamp_min", "clone", "constant_pad_nd", "contiguous", "copy", "embedding",
        "expand_copy", "fill", "flip", "full", "full_like", "gather", "hardtanh", "index",
        "index_put_", "index_select", "lift_fresh", "lift_fresh_copy", "masked_fill",
        "masked_select", "max", "max_pool2d_with_indices", "maximum", "min", "minimum", "neg",
        "new_zeros", "ones", "ones_like", "relu", "repeat", "roll", "scalar_tensor", "scatter",
        "select_backward", "select_scatter", "sign", "slice_backward", "slice_scatter", "sort",
        "squeeze_copy", "stack", "threshold", "threshold_backward", "topk", "tril", "triu",
        "unsqueeze_copy", "where", "zero", "zeros", "zeros_like",
    }
)  # fmt: skip
# The numbers of their arguments belong together, or make sense only as they are.
_COUPLED = re.compile(
    r".*(attention|pool\dd|rnn|lstm|gru|ctc|cum|prod|logsumexp|weight_norm|grid_sampler)"
    r".*backward.*|"
    r"_?linalg_(?!vector_norm|norm|vecdot|matmul|multi_dot|cross|diagonal).*|_?cholesky.*|_?lu_.*|"
    r"geqrf.*|ormqr.*|triangular_solve.*|.*inverse.*|_?embedding_bag.*|segment_reduce.*|"
    r"_?unique.*|_?(pack|pad)_pa.*|histc.*|_?histogram.*|bucketize.*|searchsorted.*|"
    r"_?flash_attention.*|_?efficient_attention.*"
)
# Functions of torch.nn.functional whose arguments after the first ATen has in another order.
_OTHER_ORDER = frozenset({"elu", "hardtanh", "glu", "celu", "selu", "relu6"})
_LINALG, _SPECIAL = "linalg_", "special_"
# The public function that converts to a dtype.
CONVERSIONS = {
    "float16": "half", "bfloat16": "bfloat16", "float32": "float", "float64": "double",
    "int64": "long", "int32": "int", "int16": "short", "int8": "char", "uint8": "byte",
    "bool": "bool",
}  # fmt: skip


def base_name(overload: Any) -> str:
    """``addmm`` of ``torch.ops.aten.addmm.default``."""
    return str(overload.__name__.partition(".")[0])


@functools.lru_cache(maxsize=4096)
def overload_named(name: str) -> Any:
    """The overload called ``addmm.default``. Raises UsageError for one that torch lacks or that may
    not be called."""
    base, _, overload = name.partition(".")
    registered = f"{NAMESPACE}::{base}" + (f".{overload}" if overload != "default" else "")
    if not _OVERLOAD.fullmatch(name) or registered not in _registered():
        raise UsageError(f"torch {torch.__version__} has no operator {name!r:.80} under aten")
    if is_forbidden(base):
        raise UsageError(f"the operator {name!r:.80} is not one that a case may call")
    return getattr(getattr(torch.ops.aten, base), overload)


@functools.cache
def _registered() -> frozenset[str]:
    torch_c: Any = torch._C
    return frozenset(torch_c._dispatch_get_all_op_names())


def is_forbidden(base: str) -> bool:
    """Whether no case may call ``aten::base``: it touches files or storage, or only controls
    torch."""
    return _FORBIDDEN.fullmatch(base) is not None


def is_uninitialized(base: str) -> bool:
    """Whether it returns uninitialized memory."""
    return base.startswith(("empty", "new_empty", "_empty"))


def moves_numbers(base: str) -> bool:
    """Whether it rounds nothing: each number of its result is an input, or the negative of one."""
    return base in MOVES or base.removesuffix("_") in MOVES


def has_coupled_arguments(base: str) -> bool:
    """Whether an operator's arguments depend on each other, so that none can be drawn
    separately."""
    return _COUPLED.fullmatch(base) is not None


@functools.cache
def is_public(base: str) -> bool:
    """Whether torch offers the operator to users, and so checks its arguments; others are called by
    torch itself."""
    functions: Any = torch._C
    offered = any(
        hasattr(module, base)
        for module in (torch, torch.Tensor, functions._nn, functions._linalg, functions._special)
    )
    internal = base.startswith(("_", "mkldnn", "cudnn", "miopen")) or "backward" in base
    return offered and not internal


def public_name(base: str) -> str:
    """The name in torch's public functions: ``linalg.svd``, ``nn.functional.gelu``; other names are
    the same."""
    if base.rstrip("_") in by_aten_name():
        return by_aten_name()[base.rstrip("_")]
    for prefix, module in ((_LINALG, "linalg."), (_SPECIAL, "special.")):
        if base.startswith(prefix):
            return module + base.removeprefix(prefix)
    return base


def public_functions(base: str) -> list[Any]:
    """torch's exports of this name that have the schema's own arguments."""
    plain = base.rstrip("_")
    places = [
        (torch, base), (torch.Tensor, base), (torch, plain), (torch.nn.functional, plain),
        (torch.linalg, base.removeprefix(_LINALG)), (torch.special, base.removeprefix(_SPECIAL)),
    ]  # fmt: skip
    return [getattr(module, name) for module, name in places if hasattr(module, name)]


def has_public_order(base: str) -> bool:
    """Whether an implementation of the public function accepts these arguments in this order."""
    return base.rstrip("_") not in _OTHER_ORDER
