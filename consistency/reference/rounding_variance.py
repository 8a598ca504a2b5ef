"""The variance of the rounding errors of healthy sums."""

from __future__ import annotations


def healthy_variance(
    terms: float, u: float, u_result: float, *, ordered: bool = False
) -> tuple[float, float]:
    """(p, q) of σ² = p·ref² + q·S², the error variance of a sequential sum in random order that is
    rounded once more at the end.

    Partial sums have E s_k² ≈ (k/n)²·ref² + k(1−k/n)·1.4·S²/n²; each addition errs by about
    0.41·u·|s_k| (uniform rounding error over a uniform mantissa), which adds up to
    0.17·u²·(n·ref²/3 + 0.23·S²). The last rounding adds at most (2·u_result·ref)²/12. Where signs
    are ``ordered`` (they depend on the position), a SIMD lane may get terms of one sign only, and
    its partial sums grow to a fraction of S, which then replaces ref.
    """
    p = 0.17 * u * u * terms / 3.0
    return p + u_result * u_result / 3.0, p if ordered else 0.17 * u * u * 0.23
