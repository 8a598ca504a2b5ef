"""What a case from elsewhere may call: public functions of torch, and kernels listed here.

A case names its function itself (``call/Tensor.copy_``, ``aten/addmm.default``), and torch's
kernels under the public functions check little: with other sizes some read and write memory that
is not theirs. So a case that the user's own runs did not write is called only if its function is
allowed:

- declared operators, and entries of PyTorch's operator database: they are named, not looked up;
- functions of torch, Tensor and torch's modules of operators that PyTorch documents;
- kernels below them that are listed in :data:`KERNELS`, because programs' traces consist of them
  and they check what they are given, or :mod:`.kernel_arguments` does so before the call;
- Python's operators between tensors and numbers (others compute in Python, without any bound).

:data:`REFUSED` are functions that PyTorch documents, and that answer with memory or addresses,
leave torch, or crash on arguments that fit their signature.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from .aten import is_forbidden, is_public, is_uninitialized
from .kernel_arguments import is_checked

_POINTWISE_BACKWARD = (
    "binary_cross_entropy elu gelu glu hardshrink hardsigmoid hardswish hardtanh huber_loss "
    "leaky_relu log_sigmoid logit mish mse_loss native_dropout sigmoid silu smooth_l1_loss "
    "soft_margin_loss softplus softshrink tanh threshold"
)
_SHAPED_BACKWARD = (
    "_adaptive_avg_pool2d _adaptive_avg_pool3d avg_pool2d avg_pool3d convolution linear matmul "
    "native_batch_norm native_group_norm native_layer_norm _fused_rms_norm _prelu_kernel "
    "reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d "
    "replication_pad3d select slice diagonal unfold trace value_selecting_reduction "
    "upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d "
    "upsample_nearest2d upsample_nearest3d upsample_trilinear3d _upsample_nearest_exact1d "
    "_upsample_nearest_exact2d "
    "_upsample_nearest_exact3d grid_sampler_2d grid_sampler_3d affine_grid_generator "
    "_weight_norm_interface _scaled_dot_product_flash_attention_for_cpu"
)
_KERNELS = (
    "_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention "
    "_scaled_dot_product_cudnn_attention masked_scatter_backward "
    "_adaptive_avg_pool2d _adaptive_avg_pool3d _addmm_activation _aminmax _batch_norm_no_update "
    "_batch_norm_with_update _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int "
    "_cast_Long _cast_Short _cdist_forward _conj _conj_copy _conj_physical _conv_depthwise2d "
    "_convolution _euclidean_dist _fft_c2c _fft_c2r _fft_r2c _fused_rms_norm _int_mm "
    "_linalg_det _linalg_eigh _linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd "
    "_local_scalar_dense _log_softmax _log_softmax_backward_data _logcumsumexp _masked_softmax "
    "_native_batch_norm_legit _native_batch_norm_legit_functional "
    "_native_batch_norm_legit_no_training _neg_view _neg_view_copy _pdist_forward _prelu_kernel "
    "_safe_softmax _scaled_dot_product_attention_math _scaled_dot_product_flash_attention_for_cpu "
    "_slow_conv2d_forward _softmax _softmax_backward_data _stack _standard_gamma _to_copy "
    "_trilinear _unique _unique2 _unsafe_view _upsample_bicubic2d_aa _upsample_bilinear2d_aa "
    "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d _weight_norm "
    "_weight_norm_interface affine_grid_generator alias clamp_max clamp_min col2im "
    "constant_pad_nd conv_depthwise3d convolution copy cross_entropy_loss detach_copy fill "
    "grid_sampler grid_sampler_2d grid_sampler_3d im2col lift lift_fresh lift_fresh_copy "
    "log_sigmoid log_sigmoid_forward matrix_H mH mT native_batch_norm native_dropout "
    "native_group_norm native_layer_norm nll_loss2d nll_loss2d_forward nll_loss_forward "
    "nll_loss_nd numpy_T reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d "
    "replication_pad2d replication_pad3d rsub scalar_tensor slice slow_conv3d slow_conv3d_forward "
    "slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d "
    "split_with_sizes thnn_conv2d unsafe_split_with_sizes upsample_bicubic2d upsample_bilinear2d "
    "upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d "
    "upsample_trilinear3d zero __and__ __or__ __xor__ __lshift__ __rshift__ __iand__ __ior__ "
    "__ixor__ __ilshift__ __irshift__ lstm gru rnn_tanh rnn_relu lstm_cell gru_cell "
    "rnn_tanh_cell rnn_relu_cell unique_dim"
)
# Whole families under one prefix: transforms, and lists of tensors.
_FAMILIES = ("fft_", "_foreach_")
_OPTIMIZERS = frozenset({"_fused_adagrad", "_fused_adam", "_fused_adamw", "_fused_sgd"})
_GRADIENTS = (*_POINTWISE_BACKWARD.split(), *_SHAPED_BACKWARD.split())
KERNELS = _OPTIMIZERS.union(_KERNELS.split(), (f"{name}_backward" for name in _GRADIENTS))
# Documented, and yet: memory that nobody wrote, addresses, the world outside of torch, positions
# and lengths that no kernel checks.
REFUSED = frozenset(
    {
        "assert_int_or_pair", "as_strided_scatter", "autocast", "backward", "const_data_ptr",
        "cuda", "data", "data_ptr", "dim_order", "dsmm", "embedding_renorm", "hsmm", "ipu",
        "is_shared", "mtia", "numpy", "record_stream", "register_hook", "saddmm", "ScalingType",
        "segment_reduce", "share_memory", "sspaddmm", "storage", "storage_type", "SwizzleType",
        "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
        "to_mkldnn", "untyped_storage", "xpu",
    }
)  # fmt: skip
# Methods that Python adds to those of ATen: conversions, and properties of the shape.
_METHODS = frozenset(
    {
        "bfloat16", "bool", "byte", "cdouble", "cfloat", "char", "cpu", "double", "element_size",
        "float", "half", "int", "long", "lu", "ndimension", "nelement", "short", "tolist", "type",
        "unique",
    }
)  # fmt: skip
_MODULES = ("torch.nn.functional", "torch.linalg", "torch.fft", "torch.special")


@functools.cache
def allows_kernel(base: str) -> bool:
    """Whether a case from elsewhere may call ``aten::base``."""
    plain = base if base.endswith("__") else base.rstrip("_")
    if is_forbidden(base) or is_uninitialized(base) or plain in REFUSED:
        return False
    listed = base in KERNELS or plain in KERNELS or plain.startswith(_FAMILIES)
    return listed or is_checked(base) or (is_public(base) and _is_documented(base))


@functools.cache
def allows_function(name: str) -> bool:
    """Whether a case from elsewhere may call ``torch.add``, ``Tensor.copy_`` or ``operator.add``,
    which the catalog of functions has."""
    module, _, last = name.rpartition(".")
    if last.rstrip("_") in REFUSED or is_uninitialized(last):
        return False
    if module in ("operator", *_MODULES) or last.startswith("is_"):
        return True
    if module == "Tensor" and (last in _METHODS or last.startswith("__")):
        return True
    return allows_kernel(last)


def is_documented_in(place: Any, name: str) -> bool:
    """Whether ``place`` has a function of this name with documentation."""
    function = getattr(place, name, None)
    return callable(function) and bool((function.__doc__ or "").strip())


def _is_documented(base: str) -> bool:
    """Whether PyTorch documents a function of this name, or the form that is not in place."""
    plain = base.rstrip("_")
    places: tuple[tuple[Any, str], ...] = (
        (torch, base), (torch.Tensor, base), (torch, plain), (torch.Tensor, plain),
        (torch.Tensor, f"{plain}_"),
        (torch.nn.functional, plain), (torch.linalg, plain.removeprefix("linalg_")),
        (torch.special, plain.removeprefix("special_")),
    )  # fmt: skip
    return any(is_documented_in(place, name) for place, name in places)
