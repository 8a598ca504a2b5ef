"""Why the drawn inputs do not go where a reported bug shows. An entry is struck out when the bug is
noticed."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "tracel-ai/burn#4859": "which of several NaN is named is not documented: they equal nothing",
    "pytorch/pytorch#174070": (
        "a complex number with an infinite part is infinite, whatever the other part (C99, Annex G)"
    ),
    "pytorch/pytorch#152373": (
        "errors of complex numbers are measured by the whole number, not by its parts, and one "
        "with an infinite part is infinite"
    ),
    "pytorch/pytorch#65200": (
        "the gradient is that of sampling at the scale, which is documented; what is not is the "
        "copy, and that is known"
    ),
    "jax-ml/jax#13979": "257 systems of 257 x 257 are too large for a shipped case",
    "jax-ml/jax#40629": (
        "torch's own gradient cancels alike (0 for -9.9e-5 at 3e-5 in float32), and the budget "
        "admits it"
    ),
    "tenstorrent/tt-metal#55316": (
        "an infinite gradient, whose sign formulas may find in different orders, is not proved"
    ),
    "PaddlePaddle/Paddle#73258": "a case has at most 2^24 elements",
    "ROCm/rocm-libraries#8645": (
        "2,000,000 rows in float64 take seconds to judge: too long for a shipped case"
    ),
    "pytorch/pytorch#180159": "what an integer holds of numbers beyond its range is not defined",
    "pytorch/xla#8675": "which of equal largest numbers `cummax` names is not defined",
    "pytorch/pytorch#188756": "a case has at most 2^24 elements",
    "pytorch/pytorch#154521": (
        "what a transform of infinite numbers gives depends on its steps, and is neither drawn "
        "nor proved"
    ),
    "pytorch/pytorch#197109": "expected of compilers by an entry that names this report",
    "pytorch/pytorch#153276": (
        "torch's own loop adds so, too, and the rule of half precision admits it"
    ),
    "pytorch/pytorch#194347": (
        "which of two zeros `minimum` and `maximum` give depends on the place in torch itself"
    ),
    "pytorch/pytorch#154312": "singular matrices that rounding makes regular are not drawn",
    "tensorflow/tensorflow#117774": "what an integer holds of NaN is not defined",
    "ml-explore/mlx#4038": "what an integer holds of numbers beyond its range is not defined",
    "intel/torch-xpu-ops#889": "what a byte holds of numbers beyond its range is not defined",
    "microsoft/onnxruntime#32299": "a case has at most 2^24 elements",
    "pytorch/pytorch#167086": "a case has at most 2^24 elements",
    "pytorch/pytorch#169670": (
        "2,048 x 2,048 complex numbers take 9 s to judge: too long for a shipped case"
    ),
    "pytorch/pytorch#180776": "no case is repeated, and wide batches of matrices are rare",
    "pytorch/pytorch#183885": (
        "positions among 2^22 columns take 10 s to judge: too long for a shipped case"
    ),
    "pytorch/pytorch#198201": "its pixels are proved right by the formula; torch's CPU copies",
    "pytorch/pytorch#197815": "strides are not compared",
    "pytorch/pytorch#97333": "a Python number is right as given and as rounded to float16",
    "pytorch/pytorch#186875": "a Python number is right as given and as rounded to half precision",
    "pytorch/pytorch#128306": "a Python number is right as given and as rounded to half precision",
    "pytorch/pytorch#185605": "a number beside tensors is right as given and as rounded to theirs",
    "pytorch/pytorch#185472": "a Python number is right as given and as rounded to half precision",
    "pytorch/pytorch#136611": "a case has at most 2^24 elements",
    "pytorch/pytorch#185663": "a case has at most 2^24 elements",
    "pytorch/pytorch#194460": "a case has at most 2^24 elements",
    "pytorch/pytorch#154703": "a sum of more than 2^24 ones is not drawn",
    "pytorch/pytorch#173638": "that a determinant of NaN is NaN is not proved",
    "pytorch/pytorch#189617": "one more rounding to half precision is within the budget",
    "pytorch/pytorch#158412": "beyond the largest number one ulp is infinite, within a rounding",
    "pytorch/pytorch#180152": "what is left is within the budget of a sum in any order",
    "pytorch/pytorch#140347": "what an integer holds of NaN is not defined",
    "pytorch/pytorch#189804": "1 + erf(x) may cancel, as it does in every framework",
    "pytorch/pytorch#175154": "which pixels a scale names beside a size that stays is not defined",
    "pytorch/pytorch#181555": "a case has at most 2^24 elements",
    "pytorch/pytorch#154322": "a case has at most 2^24 elements",
    "pytorch/pytorch#165744": "beside an infinite weight, zeros may count as factors or not at all",
    "intel/torch-xpu-ops#2779": "how `logspace` makes whole numbers of powers is not defined",
    "pytorch/pytorch#189808": "the sign of a NaN is not defined",
    "intel/intel-xpu-backend-for-triton#5950": "strides of what holds nothing are not compared",
    "pytorch/pytorch#197236": "strides of a library's solutions are not compared",
    "pytorch/pytorch#143182": "rows of 10 million numbers are not drawn",
    "pytorch/pytorch#187332": "infinity is right; it is torch's own NaN that is not",
    "pytorch/pytorch#153903": "strides of attention are the choice of libraries",
    "intel/torch-xpu-ops#3023": "the result it is made of is rounded alike, and is within a budget",
    "pytorch/pytorch#136345": "at a kink, either slope is right",
    "pytorch/pytorch#156929": "one ulp is within the budget of a logarithm",
    "pytorch/pytorch#178123": "known of every backend: its squares leave the format",
    "pytorch/pytorch#194082": "a case has at most 2^24 elements",
    "tensorflow/tensorflow#118179": "what is left is within the budget of a rounded mean",
    "tensorflow/tensorflow#118673": "the gradient of an extreme that is NaN is not defined",
    "pytorch/pytorch#186818": "a Python number is right as given and as rounded to half precision",
    "pytorch/pytorch#190139": "a case has at most 2^24 elements",
    "intel/torch-xpu-ops#3251": "norms of order 0 count NaN; it is torch's distances that do not",
    "openvinotoolkit/openvino#35946": "any place of several NaN counts",
    "ml-explore/mlx#4538": "a case has at most 2^24 elements",
    "pytorch/pytorch#96429": "torch's CPU rounds positions alike, and the budget admits it",
    "pytorch/pytorch#41244": "a complex number of which one part is NaN counts as NaN",
    "pytorch/pytorch#96613": "a case has at most 2^24 elements",
    "pytorch/pytorch#182052": "a case has at most 2^24 elements",
    "pytorch/pytorch#161265": "a case has at most 2^24 elements",
    "pytorch/pytorch#197673": "a case has at most 2^24 elements",
    "pytorch/pytorch#197636": "a case has at most 2^24 elements",
    "pytorch/pytorch#184826": "8,388,608 rows take seconds to judge: too long for a shipped case",
    "pytorch/pytorch#188545": "the limit at infinity is 0; it is torch's own NaN that is not",
    "pytorch/xla#6750": "what a power of an integer 0 by -1 is, is not defined",
    "pytorch/pytorch#117623": (
        "whether operands take the destination's dtype before the call is not defined"
    ),
    "pytorch/pytorch#148241": "torch's CPU gives the same zeros",
    "pytorch/pytorch#160744": "what a byte holds of a negative number is not defined",
    "tensorflow/tensorflow#121242": "what a byte holds of numbers beyond its range is not defined",
    "pytorch/pytorch#169058": "what a byte holds of numbers beyond its range is not defined",
    "pytorch/pytorch#154726": "what an integer holds of infinity is not defined",
    "pytorch/pytorch#185610": (
        "which of two zeros `minimum` and `maximum` give depends on the place in torch itself"
    ),
    "pytorch/pytorch#173987": "a number beside tensors is right as given and as rounded to theirs",
    "pytorch/pytorch#180744": "calls in training and in evaluation do not follow one another",
    "pytorch/pytorch#190056": "which numbers a dropout drops is not defined",
    "pytorch/pytorch#132107": "no case is compiled for any length",
    "pytorch/pytorch#170175": "strides of positions are not compared",
}
