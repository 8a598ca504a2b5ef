"""What the judge does not get right yet, by the name of the row, with the reason.

A fault that is noticed after all fails a test, so that its entry is struck out. A healthy row is
accused in few cases only.
"""

from __future__ import annotations


def _each(why: str, *names: str) -> dict[str, str]:
    return {f"played:{name}": why for name in names}


# Drawn, changed, and yet nothing failed.
MISSED: dict[str, str] = {
    **_each(
        "most sums have fewer than 32 terms, most results fewer than 256",
        "truncating every 32 / nn.functional.conv2d float32",
        "truncating every 32 / sum float32",
    ),
}

# No bit of any result changed: the cases that would show it are not drawn, or too seldom.
NOT_DRAWN: dict[str, str] = {
    **_each(
        "float16 results stay below 2^14",
        "overflow from 2^14 / sum float16",
    ),
    **_each("steps are exact, and so are their sums", "added up / arange float32"),
    **_each(
        "seldom from the right with as many columns as rows",
        "side ignored where it fits / linalg.solve float32",
    ),
}

# Healthy, and failed in some case.
ACCUSED: dict[str, str] = {
    **_each(
        "oneDNN is wrong for channels_last with groups",
        "channels last / nn.functional.conv2d float32",
    ),
    **_each(
        "torch's float64 gives 0 for a query with NaN and few keys, which is expected on cpu alone",
        "computed in float64 / nn.functional.scaled_dot_product_attention float32",
    ),
}
