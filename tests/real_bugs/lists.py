"""What the held-out lists of reports showed when each was complete, before anything was changed for
it: the rows of a table of docs/real-bugs.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HeldOut:
    """One list. ``topics``: a pattern of its sections; ``quick`` and ``fifty``: reports of ``of``
    that were noticed by a quick run and with 50 fresh cases (None: not measured)."""

    number: int
    topics: str
    of: int
    quick: int
    fifty: int | None
    about: str
    missed: str

    def row(self, since: int) -> str:
        """The line of the table; ``since`` are noticed by a quick run now."""
        fifty = "–" if self.fifty is None else _share(self.fifty, self.of)
        told = f"{self.number} | {self.of} {self.about} | {_share(self.quick, self.of)} | {fifty}"
        return f"| {told} | {since} | {self.missed} |"


def _share(count: int, of: int) -> str:
    return f"{count} ({100.0 * count / of:.0f}%)"


LISTS = (
    HeldOut(
        1, "held out", 26, 13, None, "of torch's backends",
        "a contiguous slice, -0.0 as a number, an infinity in a product, rows of more than 1,024, "
        "positions beyond 256",
    ),
    HeldOut(
        2, "held out later", 14, 4, None, "of torch's backends",
        "one tensor alone in a layout, batches of systems, squares beyond float16",
    ),
    HeldOut(
        3, "third*", 45, 21, 24, "of accelerators",
        "conditions that met only apart: channels innermost beside larger kernels, factors of "
        "C x 1 x 1, fractions beside whole numbers; cases that half precision lacked",
    ),
    HeldOut(
        4, "held out frameworks*", 42, 24, 28, "of compilers and frameworks",
        "numbers whose squares overflow, equal operands, windows as large as the image, even "
        "kernels, a divisor of 1",
    ),
    HeldOut(
        5, "fifth*", 24, 16, 18, "of 18 programs",
        "channels_last beside padding, 524,281 right sides, 10⁶ beside a divisor",
    ),
    HeldOut(
        6, "sixth*", 27, 22, 24, "of 20 programs",
        "labels that are ignored, whole numbers ÷ a Python number, 50,000 bins, two layouts",
    ),
    HeldOut(
        7, "seventh*", 24, 14, 15, "of nine programs, eight in half precision",
        "attention as models lay it out, numbers just beyond a bound, quotients of 1, a float32 "
        "number beside float16, an expanded cotangent, reductions of nothing",
    ),
    HeldOut(
        8, "eighth*", 24, 12, 14, "of torch and 12 programs",
        "domains that declarations left narrow, long rows beside options, images of models",
    ),
    HeldOut(
        9, "ninth*", 26, 20, 20, "of 18 programs",
        "large imaginary parts, NaN in `unique`, a mask of the least number over a block of keys",
    ),
    HeldOut(
        10, "tenth*", 27, 19, 21, "of 18 programs",
        "whole exponents beyond the bits, a correction of more than the elements, fillings that "
        "float32 does not hold, a pixel between two; not proved: an infinity of the wrong sign",
    ),
    HeldOut(
        11, "eleventh*", 30, 25, 26, "of 30 programs",
        "calls that are too plain to be drawn; twice the judge: a divisor as a remainder, an "
        "expectation that hid another program's defect",
    ),
    HeldOut(
        12, "twelfth*", 24, 22, 22, "of 24 programs",
        "matrices that need rows exchanged; a cast that C does not define",
    ),
    HeldOut(
        13, "thirteenth*", 24, 19, 20, "of 24 programs",
        "subnormals among zeros, integers that agree in 32 bits; an operator that was not declared",
    ),
    HeldOut(
        14, "fourteenth*", 24, 20, 21, "of 23 programs",
        "infinities of `nan_to_num` in half precision, lengths of -1, expanded indices",
    ),
    HeldOut(
        15, "fifteenth*", 24, 15, 16, "of 24 programs",
        "volumes of many channels, two infinite bounds, singular matrices, a tensor in two places; "
        "not proved: a pseudo-inverse, the gradient of a loss that is made 0",
    ),
    HeldOut(
        16, "sixteenth*", 24, 19, 21, "of 23 programs",
        "the gradient of the norm of zeros, pixels that are equally near; a cast that C does not "
        "define",
    ),
    HeldOut(
        17, "seventeenth*", 24, 18, 19, "of 23 programs",
        "`rsqrt` at 0, states of zeros, single elements in views; not proved: the sign of a NaN "
        "that is given, infinite gradients",
    ),
    HeldOut(
        18, "eighteenth*", 24, 11, 12, "of torch's own backends",
        "several things at once: a mask for each item beside a head of 64, sums of e⁻⁸⁸ beside "
        "192 keys, everything dropped between layers, a view of booleans inside a word",
    ),
    HeldOut(
        19, "nineteenth*", 24, 13, 13, "of torch's own backends",
        "operands of two formats, integers far from 0 in `linspace`, places in equal windows of a "
        "transposed image, depthwise kernels of 256 taps, whole blocks of hidden keys, an empty "
        "list of dimensions, sizes of 1 behind the fourth; random: dropout between layers",
    ),
    HeldOut(
        20, "twentieth*", 24, 16, 16, "of torch's own backends",
        "a 0-d tensor to look for, masks of float32 beside half precision, NaN of a query in a "
        "call without a mask, complex products of 10,000 terms; not proved: the exponent of an "
        "infinity; not drawn: 2²³ rows, a call that depends on the one before",
    ),
    HeldOut(
        21, "twentyfirst*", 24, 14, 15, "of torch's own backends",
        "queries and keys of no features, a base of 0 beside a negative exponent; not drawn: 2³² "
        "numbers, a layer of 320 to 1,280, a call that depends on the one before; admitted: a "
        "number that is rounded before or after it is compared or summed",
    ),
    HeldOut(
        22, "twentysecond*", 24, 17, 19, "of all kinds of backends",
        "whole numbers that leave the format in which they are summed, an image made one pixel "
        "large, odd strides of a length of 1; with 50: places whose list has strides of 1 twice, "
        "images of one channel in a wider memory; not drawn: 0 beside 32 factors that overflow; "
        "admitted: a Python number that is not rounded to float16",
    ),
    HeldOut(
        23, "twentythird*", 24, 12, 13, "of torch's own backends",
        "channels innermost behind an offset, weights of float32 beside half precision; with 50: a "
        "slice of channels; not drawn: complex logarithmic sums, images of bytes, uint16, 2³² "
        "bytes; admitted: the sign of equal zeros, casts that C does not define, the strides of "
        "`nonzero`; expected of the CPU, too: factorials that leave the format",
    ),
    HeldOut(
        24, "twentyfourth*", 20, 6, 6, "of torch's own backends",
        "65,537 images, lists of several formats; not drawn: 2²⁸ to 2³² numbers (4), 110 tensors "
        "of a list, bounds that one format makes equal; not proved: NaN in a determinant; "
        "admitted: a Python number or a weight that is rounded before or after (5)",
    ),
    HeldOut(
        25, "twentyfifth*", 12, 5, 5, "of torch's own backends",
        "one row of weights beside an expanded gradient; not drawn: 2³¹ and 2³² numbers; admitted: "
        "0 times an infinite weight, a power that is cut before it is rounded, the sign of a NaN, "
        "the strides of nothing",
    ),
    HeldOut(
        26, "twentysixth*", 12, 6, 6, "of torch's own backends, without large ones",
        "places that lie apart in memory; admitted: a sum of complex numbers in their own format, "
        "a result one ulp before an infinity, NaN as an integer, pixels where a size stays or "
        "doubles beside a scale, cancellation in the tail of `gelu`",
    ),
    HeldOut(
        27, "twentyseventh*", 6, 4, 4, "of torch's own backends",
        "not drawn: rows of 10 million numbers; not compared: strides of a library's solutions",
    ),
    HeldOut(
        28, "twentyeighth*", 20, 11, 11, "of torch's own backends",
        "the memory format of shuffled channels and reflected images; not drawn: 2³² numbers; not "
        "compared: the strides of attention; known of every backend: squares that overflow in a "
        "norm; admitted: a right result where torch's is "
        "NaN, one more rounding to half precision, either slope at a kink, one ulp of `log2`",
    ),
    HeldOut(
        29, "twentyninth*", 12, 8, 8, "of other frameworks",
        "functions of negative arguments that were not proved to be NaN, positions in more than "
        "four dimensions; admitted: the gradient of an extreme that is NaN, a mean rounded twice",
    ),
    HeldOut(
        30, "thirtieth*", 21, 15, 16, "pull requests to torch; XPU, converters",
        "bounds of `logit` that cross, places × sizes of 2³¹, images of one channel in "
        "channels_last; not drawn: 2³¹ numbers; admitted: a Python number that is not rounded to "
        "half precision, a difference of NaN that counts as one",
    ),
    HeldOut(
        31, "thirtyfirst*", 22, 16, 18, "of torch's backends and other frameworks",
        "complex numbers of which one part is infinite and one NaN, single hits among 16-bit "
        "numbers, a single row among several dimensions; admitted: another place of NaN; not "
        "drawn: 2³² numbers",
    ),
    HeldOut(
        32, "thirtysecond*", 22, 20, 20, "of torch's backends and other frameworks",
        "gradients of `ldexp`, of which torch's own are known to be wrong: a known divergence ends "
        "where a result is another one than torch's; rows and columns of matrices in any two "
        "dimensions",
    ),
    HeldOut(
        33, "thirtythird*", 19, 15, 15, "of torch's backends and other frameworks",
        "losses of numbers that are hit, `sigmoid` of a complex -inf; admitted: positions in half "
        "precision, as torch's CPU has them, a NaN of one part beside one of the other",
    ),
    HeldOut(
        34, "thirtyfourth*", 20, 19, 19, "of torch's backends and other frameworks",
        "not judged: which of two zeros `minimum` gives (torch's CPU goes by the place)",
    ),
    HeldOut(
        35, "thirtyfifth*", 20, 17, 18, "of torch's backends and other frameworks",
        "complex numbers of two zeros that fill a tensor; not drawn: 2^24 numbers in one bin",
    ),
    HeldOut(
        36, "thirtysixth*", 20, 17, 18, "of torch's backends and other frameworks",
        "complex matrices of a multiple of three rows, one number that is summed in one place; "
        "admitted: shifts by as many bits as there are, as not defined",
    ),
    HeldOut(
        37, "thirtyseventh*", 20, 18, 18, "of torch's backends and other frameworks",
        "rows of which all numbers are infinite, and which of equal extrema is the first one",
    ),
    HeldOut(
        38, "thirtyeighth*", 20, 18, 18, "of torch's backends and other frameworks",
        "masks that hide every key with the least number, kernels and strides of networks",
    ),
    HeldOut(
        39, "thirtyninth*", 20, 17, 17, "of torch's backends and other frameworks",
        "subnormal pivots of many matrices, constants around every side of a column; not judged: "
        "distinct values beside NaN",
    ),
    HeldOut(
        40, "fortieth*", 39, 33, 34, "of torch's backends, other frameworks, engines and repairs",
        "bytes reduced by cubic filters, large whole numbers beside one that is no tensor; "
        "admitted: a sign for NaN, as the CPU's own fault was expected everywhere",
    ),
)  # fmt: skip
TABLE = """| list | reports | quick run | 50 fresh cases | since | missed, and drawn since |
|---|---|---|---|---|---|
"""

__all__ = ["LISTS", "TABLE", "HeldOut"]
