"""Which operators take unsigned integers of 16, 32 and 64 bits.

Torch moves them, compares them for equality, casts them and makes floats of them; it neither adds
them nor orders them.
"""

from __future__ import annotations

from dataclasses import replace

from ..core.dtypes import WIDE_UNSIGNED
from .declare import Operator

# Whose drawn cases torch 2.13's CPU mostly computes, in the registry's order; their forms with
# ``out=`` and as methods go with them.
_LISTED = """
    positive ceil floor trunc round nan_to_num reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10
    log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid deg2rad rad2deg
    angle logit sinc erf erfc erfinv lgamma digamma polygamma mvlgamma i0 special.i0e special.i1
    special.i1e special.ndtr special.ndtri special.log_ndtr special.entr special.erfcx
    special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1
    special.modified_bessel_i0 special.modified_bessel_i1 special.modified_bessel_k0
    special.modified_bessel_k1 special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1
    special.spherical_bessel_j0 special.airy_ai
    mul div true_divide __rmul__ __rdiv__ float_power ldexp atan2 copysign xlogy special.xlog1py
    special.zeta
    eq ne isnan isinf isfinite isposinf isneginf isreal signbit isclose allclose equal bitwise_and
    bitwise_or bitwise_xor
    float double half bfloat16 int long short char byte bool to
    sum nansum sum_to_size prod all any logsumexp
    cumsum cumprod
    outer kron
    softmax.with_dtype log_softmax.with_dtype
    nn.functional.tanhshrink
    nn.functional.poisson_nll_loss
    index_select __getitem__ where
    reshape view reshape_as view_as flatten ravel unflatten transpose swapaxes swapdims t mT T
    permute movedim moveaxis squeeze unsqueeze expand expand_as broadcast_to narrow narrow_copy
    select unfold as_strided diagonal diag diagflat diag_embed flip flipud roll atleast_1d
    atleast_2d atleast_3d contiguous clone cat stack hstack vstack dstack column_stack block_diag
    meshgrid broadcast_tensors cartesian_prod split unsafe_split split_with_sizes chunk
    unsafe_chunk tensor_split hsplit vsplit dsplit unbind repeat tile repeat_interleave
    nn.functional.pad select_scatter slice_scatter diagonal_scatter as_strided_copy diagonal_copy
    expand_copy permute_copy select_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy
    unbind_copy unfold_copy unsqueeze_copy view_copy alias_copy detach_copy real conj
    conj_physical resolve_conj resolve_neg linalg.diagonal mH H adjoint as_strided_scatter
    sort argsort msort unique unique_consecutive
    linalg.vander
    fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2
    fft.hfft2 fft.ihfft2 fft.fftn fft.ifftn fft.rfftn fft.irfftn fft.hfftn fft.ihfftn fft.fftshift
    fft.ifftshift
    zeros ones full empty empty_strided zeros_like ones_like full_like empty_like new_zeros
    new_ones new_full new_empty scalar_tensor
    floor_ mul_ __imul__ copy_ fill_ zero_ __setitem__ fill_diagonal_
    masked.prod
    special.chebyshev_polynomial_t special.chebyshev_polynomial_u special.chebyshev_polynomial_v
    special.chebyshev_polynomial_w special.shifted_chebyshev_polynomial_t
    special.shifted_chebyshev_polynomial_u special.shifted_chebyshev_polynomial_v
    special.shifted_chebyshev_polynomial_w special.hermite_polynomial_h
    special.hermite_polynomial_he special.laguerre_polynomial_l special.legendre_polynomial_p
"""
_NAMES = frozenset(_LISTED.split())


def with_wide_unsigned(operator: Operator) -> Operator:
    """The operator with the wide unsigned dtypes beside its own, if torch computes with them."""
    original = operator.form_of if operator.name.endswith((".out", ".method")) else None
    name = operator.name if original is None else original.name
    if name not in _NAMES:
        return operator
    return replace(operator, dtypes=(*operator.dtypes, *WIDE_UNSIGNED))
