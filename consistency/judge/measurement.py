"""Measurement of one floating-point output: from two tensors to a
:class:`~consistency.core.model.Measured`."""

from __future__ import annotations

import math

import numpy as np

from ..core.model import ElementGroup, Measured
from . import metrics
from .element_groups import GroupedElements
from .error_places import ErrorPattern, pattern_of

_SETTLED = 0.5  # ulp: smaller errors satisfy every rule in use; only the two maxima are kept
_MOST_ZEROS = 0.65
_LEANING, _ALL = 3.0, 0.9  # sign bias: suspicious (standard deviations), certain (share)
_FACTORS = 2  # operands of a product that nothing is added to
_FEW_TERMS = 4.0  # of which one, the same for many results, may decide which way they are rounded
# × √u: relative range of operands below which healthy sums of products have a sign bias (observed
# up to 2 × √u)
_HALF_OF_THE_DIGITS = 4.0
_HASH = np.uint64(0x9E3779B97F4A7C15)  # Knuth's multiplicative hash: 2^64 / the golden ratio


def mostly_repeated(numbers: metrics.Doubles) -> bool:
    """Whether at most half of the numbers are distinct.

    Numbers that fall into different slots of a table are distinct; sorting them, which takes five
    times as long, is left to those of which three quarters fill too few slots.
    """
    n = numbers.size
    bits = (n - 1).bit_length() + 1  # two to four times as many slots as numbers
    slots = np.zeros(1 << bits, dtype=np.bool_)
    # 0.0 makes one of the two zeros.
    hashed = (numbers[: n - n // 4] + 0.0).view(np.uint64)
    hashed *= _HASH
    hashed >>= np.uint64(64 - bits)
    slots[hashed] = True
    if 2 * int(np.count_nonzero(slots)) > n:
        return False
    return bool(2 * np.unique(numbers).size <= n)


def _leans(positive: int, negative: int, outward: int) -> bool:
    """Whether more errors have one sign, or are away from zero or toward it, than chance makes."""
    signed = positive + negative
    leaning = max(positive, negative, outward, signed - outward)
    return 2 * leaning - signed > _LEANING * math.sqrt(signed)


class Floating(GroupedElements):
    """Measures one output. Special values, ranges and the Pareto front are computed only if
    needed."""

    def measured(self) -> Measured:
        n = self.expected.size
        if n == 0:
            vacuous = "empty output: only shape and dtype could be checked"
            return Measured(
                self.name, self.dtype, self.shape, 0, (ElementGroup(None),), vacuous=vacuous
            )
        sums = metrics.absolute_and_ulp(
            self.actual, self.expected, self.tail, self.form, self.known
        )
        # The largest number in place of an infinity has an error of at least half a step.
        largest_step = self.form.overflow * self.form.unit_roundoff
        if sums.bad or (sums.abs_max >= largest_step and self.held().any()):
            self.set_special_aside()
            sums = metrics.absolute_and_ulp(self.actual, self.expected, self.tail, self.form)
        if sums.nonzero < self.expected.size and self.signed_zeros_matter():
            self.check_zero_signs()
        exact = self.moves_only
        element_groups: tuple[ElementGroup, ...] = (
            ElementGroup(None, sums.ulp_max, abs_max=sums.abs_max),
        )
        elementwise_rounding = self.model.kind == "rounded" and not self.complex
        if sums.ulp_max > _SETTLED and (
            sums.ulp_max > 1.0 or not elementwise_rounding or sums.small
        ):
            element_groups, exact = self.measure_groups(sums)
        pattern = ErrorPattern()
        if sums.ulp_max > 2.0 and element_groups[0].pareto_front:
            pattern = pattern_of(
                self.placed(metrics.errors(self.actual, self.expected, self.tail)), self.shape
            )
        return Measured(
            self.name, self.dtype, self.shape, n, element_groups, exact, sums.differing,
            math.sqrt(sums.squares / n), math.sqrt(sums.sigma_squares / n),
            math.sqrt(sums.sigma_max), self._independent(sums),
            *self._signs(sums), self.special, self.special_worst, self._vacuous_reason(sums, n),
            pattern.words, self.cluster, self._term_count(), self._step_statistics(),
            pattern.at_end,
        )  # fmt: skip

    def _signs(self, sums: metrics.Sums) -> tuple[int, int, int]:
        """How many errors are positive, negative, and away from zero; zeros if a sign bias proves
        nothing.

        For numbers 2ᵐ + a that agree in all but their last digits, products are 2²ᵐ + 2ᵐ(a + b) +
        ab; a running sum keeps the first two terms exactly, and what is rounded away has the sign
        of ab. Healthy sums then have up to 86% of their errors on one side; truncation has all of
        them. Equal results, such as the gradient of a mean, have equal errors. Where one operand's
        numbers agree and another's differ widely, the small ones make products below the last digit
        of a running sum, of which about the same is rounded away in every result: up to all of
        those that share the other operand's numbers err to one side. A bias that is added last to
        two products has about the same share of its digits rounded away in every result, too.
        """
        counts = (sums.positive, sums.negative, sums.outward)
        if not _leans(*counts):
            return counts
        if self._shares_products():
            return 0, 0, 0  # the error of a shared product leans all of its elements
        counts = self._signs_where_results_do_not_vanish(counts)
        positive, negative, outward = counts
        signed = positive + negative
        not_all = max(*counts, signed - outward) < _ALL * signed
        if (
            (not_all and (self._bias_decides() or self._operands_nearly_equal()))
            or (self.reference.heavy_tailed and self._an_operand_nearly_equal())
            or self._results_repeat()
        ):
            return 0, 0, 0
        return counts

    def _signs_where_results_do_not_vanish(
        self, counts: tuple[int, int, int]
    ) -> tuple[int, int, int]:
        """The counts without the zeros in place of at most half of the smallest subnormal number:
        rounding to nearest makes those, too, and all of their errors are toward zero."""
        half_a_step = self.form.smallest_normal * self.form.unit_roundoff
        vanished = (np.abs(self.expected) <= half_a_step) & (self.actual == 0)
        if not vanished.any():
            return counts
        errors = self.actual.astype(np.float64) - self.expected
        if self.tail is not None:
            errors -= self.tail
        errors[vanished] = 0.0
        positive, nonzero = np.count_nonzero(errors > 0), np.count_nonzero(errors)
        outward = np.count_nonzero(np.sign(errors) * np.sign(self.expected) > 0)
        return int(positive), int(nonzero - positive), int(outward)

    def _bias_decides(self) -> bool:
        """Whether few products are added to a third operand, which many results share."""
        return (
            0.0 < self._term_count() <= _FEW_TERMS
            and len(self.reference.materials.case.tensors) > _FACTORS
        )

    def _operands_nearly_equal(self) -> bool:
        """Whether the numbers of every operand agree in nearly half of their digits."""
        return self.reference.relative_range < self._range_of_equal_halves()

    def _an_operand_nearly_equal(self) -> bool:
        """Whether those of one operand do."""
        return self.reference.least_range < self._range_of_equal_halves()

    def _range_of_equal_halves(self) -> float:
        return _HALF_OF_THE_DIGITS * math.sqrt(self.form.unit_roundoff)

    def _term_count(self) -> float:
        """n, for charts of errors; 0 if nothing is accumulated, or counting would need another
        run."""
        if self.model.kind != "accumulated":
            return 0.0
        return (
            self.reference.terms(self.index)
            if self.reference.direction == "forward"
            else self.reference.counted(self.index)
        )

    def _step_statistics(self) -> tuple[float, float] | None:
        statistics = self.reference.of_steps.get(self.index)
        return None if statistics is None else statistics[:2]

    def _independent(self, sums: metrics.Sums) -> bool:
        """Whether rounding errors of different elements are independent, so that statistics are
        meaningful.

        Repeated numbers give equal errors, which is checked only if errors are unusual. Elements of
        a product of three factors have one error in common: that of a product of two of them.
        """
        if sums.sigma_squares == 0.0 or not self.sums_products() or self._shares_products():
            return False
        n = self.expected.size
        if (
            sums.sigma_squares <= (2.25 if n < metrics.SIGNS_FROM else 1.0) * n
            and sums.sigma_max <= metrics.UNUSUAL_PEAK
        ):
            return True
        return not (self.reference.repeats or self._results_repeat())

    def _results_repeat(self) -> bool:
        """Whether at most half of the expected numbers are distinct: asked once for all backends
        that are compared with the same numbers."""
        known = self.reference.repeated.get(self.index)
        if known is None or known[0] is not self.expected:
            known = self.reference.repeated[self.index] = (
                self.expected,
                mostly_repeated(self.expected),
            )
        return known[1]

    def _shares_products(self) -> bool:
        """Whether elements are made of the same products of some of the factors."""
        operator, bases = self.reference.operator, self.reference.materials.bases
        factors = sum(base.dtype.kind in "fc" for base in bases) - operator.leading
        return "chained" in operator.traits and factors > 2

    def _vacuous_reason(self, sums: metrics.Sums, n: int) -> str:
        """Why agreement would prove nothing: all NaN, mostly zeros, constant. Of consecutive bit
        patterns each is a number that is tried, whatever comes of its neighbors."""
        if self.reference.is_exhaustive:
            return ""
        if not self.expected.size:
            return (
                "every number lies beyond the format"
                if "largest" in self.special
                else "no element is finite in both"
            )
        if self.moves_only or "constant" in self.reference.operator.traits or n == 1:
            return ""
        # Elements of an elementwise operator are independent tests: one nonzero element suffices.
        # So are those of the gradient of data movement, which is zero where nothing was read.
        independent_elements = (
            "elementwise" in self.reference.operator.traits or self.model.kind == "exact"
        )
        if sums.nonzero < (1.0 - _MOST_ZEROS) * n and (
            sums.nonzero == 0 or not independent_elements
        ):
            return f"{n - sums.nonzero} of {n} elements are zero or not finite"
        if (
            n > 2
            and self.expected[0] == self.expected[-1]
            and self.expected.min() == self.expected.max()
        ):
            return "all elements are equal"
        return ""
