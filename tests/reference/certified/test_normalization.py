"""Normalization, softmax, attention, recurrent networks, distances and the loss of connectionist
temporal classification."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from consistency.reference.certified import balls
from consistency.reference.certified.nodes import evaluate
from consistency.reference.certified.tracing import CallTrace
from tests.reference.certified.traced_truths import (
    COUNTS,
    Row,
    check_slopes,
    check_values,
    drawn,
    elements,
    exact,
    exp,
    holds,
    log,
    power,
    sqrt,
    tanh,
)

NAN, INF = math.nan, math.inf
EPS = 1e-5


def mean(x: Any, axes: Any) -> Any:
    count = math.prod(x.shape[a] for a in (axes if isinstance(axes, tuple) else (axes,)))
    return x.sum(axes, keepdims=True) / mpmath.mpf(count)


def standardized(x: Any, axes: Any) -> Any:
    centered = x - mean(x, axes)
    return centered / sqrt(mean(centered * centered, axes) + EPS)


def by_channel(v: Any) -> Any:
    return v.reshape(1, -1, 1)


def groups(x: Any) -> Any:
    return standardized(x.reshape(2, 2, 6), 2).reshape(x.shape)


def softmax(x: Any) -> Any:
    powers = exp(x)
    return powers / powers.sum(-1, keepdims=True)


def attention(q: Any, k: Any, v: Any, scale: Any = None, seen: Any = None) -> Any:
    scores = (q @ np.swapaxes(k, -1, -2)) * (
        1 / mpmath.sqrt(q.shape[-1]) if scale is None else mpmath.mpf(scale)
    )
    weights = exp(scores)
    if seen is not None:
        weights = weights * seen.astype(object)
    return (weights / weights.sum(-1, keepdims=True)) @ v


def causal(q: Any, k: Any, v: Any) -> Any:
    return attention(q, k, v, seen=np.tri(q.shape[-2], k.shape[-2], dtype=np.int64))


def grouped(q: Any, k: Any, v: Any) -> Any:
    return attention(q, np.repeat(k, 2, 1), np.repeat(v, 2, 1))


def heads(x: Any, packed: Any, out: Any) -> Any:
    """Two heads of width 2, without biases."""
    q, k, v = (x @ packed[4 * i : 4 * i + 4].T for i in range(3))
    parts = [t.reshape(3, 1, 2, 2).transpose(1, 2, 0, 3) for t in (q, k, v)]
    return attention(*parts).transpose(2, 0, 1, 3).reshape(3, 1, 4) @ out.T


def multi_head(x: Any, packed: Any, out: Any) -> Any:
    nothing = (None, None, None, False, 0.0)
    return F.multi_head_attention_forward(
        x, x, x, 4, 2, packed, *nothing, out, None, training=False, need_weights=True
    )


def sigmoid(x: Any) -> Any:
    return 1 / (1 + exp(-x))


def lstm(x: Any, h: Any, c: Any, w: Any, u: Any) -> Any:
    h, c, made = h[0], c[0], []
    for step in x:
        gates = step @ w.T + h @ u.T
        i, f, g, o = (gates[:, 2 * n : 2 * n + 2] for n in range(4))
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h = sigmoid(o) * tanh(c)
        made.append(h)
    return np.array(made, dtype=object)


def gru(x: Any, h: Any, w: Any, u: Any) -> Any:
    h, made = h[0], []
    for step in x:
        a, b = step @ w.T, h @ u.T
        r, z = (sigmoid(a[:, 2 * n : 2 * n + 2] + b[:, 2 * n : 2 * n + 2]) for n in range(2))
        n = tanh(a[:, 4:] + r * b[:, 4:])
        h = (1 - z) * n + z * h
        made.append(h)
    return np.array(made, dtype=object)


def rnn(x: Any, h: Any, w: Any, u: Any) -> Any:
    h, made = h[0], []
    for step in x:
        h = tanh(step @ w.T + h @ u.T)
        made.append(h)
    return np.array(made, dtype=object)


def layer(name: str) -> Any:
    function, flags = getattr(torch, name), (False, 1, 0.0, False, False, False)
    if name == "lstm":
        return lambda x, h, c, w, u: function(x, (h, c), [w, u], *flags)
    return lambda x, h, w, u: function(x, h, [w, u], *flags)


def distances(p: float) -> Any:
    def of(x: Any, y: Any) -> Any:
        return np.array(
            [[power(sum(power(abs(a - b), p)), 1 / mpmath.mpf(p)) for b in y] for a in x],
            dtype=object,
        )

    return of


def between_rows(x: Any) -> Any:
    return [
        sqrt(((x[i] - x[j]) * (x[i] - x[j])).sum())
        for i, j in itertools.combinations(range(len(x)), 2)
    ]


def cosines(x: Any, y: Any) -> Any:
    return (x * y).sum(1) / (sqrt((x * x).sum(1)) * sqrt((y * y).sum(1)))


TARGET = [1, 1, 2]


def all_paths(x: Any) -> Any:
    """−log Σ of the products of all paths that collapse to the target: repetitions first, then
    blanks."""
    total: Any = mpmath.mpf(0)
    for path in itertools.product(range(3), repeat=len(x)):
        merged = [label for label, _ in itertools.groupby(path)]
        if [label for label in merged if label] == TARGET:
            total = total + exp(sum(x[t, 0, label] for t, label in enumerate(path)))
    return [-log(total)]


def ctc(x: Any) -> Any:
    return F.ctc_loss(
        x, torch.tensor([TARGET]), torch.tensor([5]), torch.tensor([3]), reduction="none"
    )


def layers(x: Any, *affine: Any) -> Any:
    return F.layer_norm(x, [4], *affine)


def in_training(x: Any) -> Any:
    return F.batch_norm(x, None, None, training=True)


GROUPED = [] if torch.__version__ < "2.5" else [
    Row("grouped attention", lambda *x: SDPA(*x, enable_gqa=True), grouped, [(1, 4, 2, 2), (1, 2, 3,
    2), (1, 2, 3, 2)], "some"),
]  # fmt: skip
QKV = [(2, 2, 3, 2), (2, 2, 4, 2), (2, 2, 4, 3)]
SDPA = F.scaled_dot_product_attention
ROWS = [
    Row("layer_norm", layers, lambda x, w, b: standardized(x, 1) * w + b, [(2, 4), (4,), (4,)],
    "some"),
    Row("layer_norm alike", lambda x: F.layer_norm(x, [4]), lambda x: standardized(x, 1), [(2, 4)],
    "alike"),
    Row("group_norm", lambda x: F.group_norm(x, 2), groups, [(2, 4, 3)], "some"),
    Row("batch_norm in training", in_training, lambda x: standardized(x, (0, 2)), [(2, 3, 2)],
    "some"),
    Row("batch_norm", lambda x, m, v: F.batch_norm(x, m, v),
        lambda x, m, v: (x - by_channel(m)) / sqrt(by_channel(v) + EPS), [(2, 3, 2), (3,), (3,)],
        "positive", slope=False),
    Row("rms_norm", lambda x: F.rms_norm(x, [4], eps=EPS), lambda x: x / sqrt(mean(x * x, 1) + EPS),
    [(2, 4)], "some"),
    Row("softmax", lambda x: x.softmax(1), softmax, [(2, 5)], "some"),
    Row("log_softmax", lambda x: x.log_softmax(1), lambda x: log(softmax(x)), [(2, 5)], "some"),
    Row("attention", SDPA, attention, QKV, "some"),
    Row("attention of 3 dimensions", SDPA, attention, [(2, 3, 2), (2, 4, 2), (2, 4, 3)], "some"),
    Row("attention, scaled", lambda *x: SDPA(*x, scale=0.3), lambda *x: attention(*x, scale=0.3),
    QKV, "some"),
    Row("causal attention", lambda *x: SDPA(*x, is_causal=True), causal, QKV, "some"),
    *GROUPED,
    Row("multi_head_attention_forward", multi_head, heads, [(3, 1, 4), (12, 4), (4, 4)], "some"),
    Row("lstm", layer("lstm"), lstm, [(3, 1, 2), (1, 1, 2), (1, 1, 2), (8, 2), (8, 2)], "some"),
    Row("gru", layer("gru"), gru, [(3, 1, 2), (1, 1, 2), (6, 2), (6, 2)], "some"),
    Row("rnn_tanh", layer("rnn_tanh"), rnn, [(4, 1, 2), (1, 1, 2), (2, 2), (2, 2)], "some"),
    Row("cdist", lambda x, y: torch.cdist(x, y, 3.0), distances(3), [(2, 3), (3, 3)], "some"),
    Row("cdist of many", torch.cdist, distances(2), [(26, 2), (2, 2)], "some"),
    Row("pdist", F.pdist, between_rows, [(4, 3)], "some"),
    Row("pairwise_distance", lambda x, y: F.pairwise_distance(x, y, eps=0.5),
        lambda x, y: sqrt(((x - y + 0.5) * (x - y + 0.5)).sum(1)), [(2, 3), (2, 3)], "some"),
    Row("cosine_similarity", F.cosine_similarity, cosines, [(2, 3), (2, 3)], "some"),
    # a convention, not the derivative
    Row("ctc_loss", ctc, all_paths, [(5, 1, 3)], "some", slope=False),
]  # fmt: skip


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_values(row: Row, count: int) -> None:
    check_values(row, count)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_slopes(row: Row, count: int) -> None:
    check_slopes(row, max(count // 4, 3))


def test_running_statistics_that_the_schema_does_not_mention() -> None:
    row = Row("running", F.batch_norm, None, [(2, 3, 2), (3,), (3,)], "some")
    x, m, v = drawn(row, 0)
    old, trace = (exact(m), exact(v)), CallTrace()
    with torch.no_grad(), trace:
        F.batch_norm(x, m, v, training=True, momentum=0.25)
    with mpmath.workprec(3000), balls.precision(256):
        data = exact(x)
        centered = data - mean(data, (0, 2))
        new = mean(data, (0, 2)).reshape(-1), (centered * centered).sum((0, 2)) / mpmath.mpf(3)
        for tensor, before, after in zip((m, v), old, new, strict=True):
            found = evaluate(trace.node(tensor), np.arange(3))
            assert all(
                holds(f, 0.75 * b + 0.25 * a) for f, b, a in zip(found, before, after, strict=True)
            )


SAFE_SOFTMAX = (
    [torch.ops.aten._safe_softmax] if hasattr(torch.ops.aten, "_safe_softmax") else []
)  # since torch 2.5


@pytest.mark.parametrize("data", [
    [0.0, -INF, 1.0], [-INF, -INF, -INF], [INF, 1.0, 2.0], [NAN, 1.0, -INF], [1e308, -1e308, 0.0],
    [-0.0, 0.0, 0.0], [7.0],
])  # fmt: skip
@pytest.mark.parametrize("call", [torch.softmax, torch.log_softmax, F.softmin, *SAFE_SOFTMAX])
def test_infinite_exponents(call: Any, data: list[float]) -> None:
    x = torch.tensor(data, dtype=torch.float64)
    for found, b in zip(elements(call, x, 0), call(x, 0).tolist(), strict=True):
        a = found if isinstance(found, float) else float(found.mid())
        assert (a != a and b != b) or a == pytest.approx(b, rel=1e-14)


def test_queries_that_see_nothing() -> None:
    nothing = 0.0 if SAFE_SOFTMAX else NAN  # 0/0 before torch 2.5
    q = torch.ones(1, 1, 2, 2, dtype=torch.float64)
    mask = torch.tensor([[True, False], [False, False]])
    found = elements(lambda: SDPA(q, q, q, attn_mask=mask))
    expected = [1.0, 1.0, nothing, nothing]
    assert all(holds(a, b) if b == b else a != a for a, b in zip(found, expected, strict=True))
    assert torch.equal(
        SDPA(q, q, q, attn_mask=mask).reshape(-1).nan_to_num(9.0),
        torch.tensor(expected).double().nan_to_num(9.0),
    )


def test_a_mask_of_truths_hides_keys_in_a_whole_layer() -> None:
    row = Row("hidden", multi_head, None, [(3, 1, 4), (12, 4), (4, 4)], "some")
    x, packed, out = drawn(row, 0)
    nothing = (None, None, None, False, 0.0)
    for mask in (
        torch.tensor([[False, True, False]] * 3),
        torch.tensor([[[False, True, True]] * 3, [[False] * 3] * 3]),
    ):

        def call(attn_mask: torch.Tensor = mask) -> Any:
            args = (x, x, x, 4, 2, packed, *nothing, out, None)
            return F.multi_head_attention_forward(
                *args, training=False, need_weights=False, attn_mask=attn_mask
            )

        found = [float(a.mid()) for a in elements(call)]
        assert found == pytest.approx(call()[0].reshape(-1).tolist(), rel=1e-12)


def test_a_target_that_no_path_leads_to() -> None:
    x = torch.zeros(2, 1, 3, dtype=torch.float64)
    for zero, wanted in ((False, INF), (True, 0.0)):
        lengths = torch.tensor([2]), torch.tensor([3])
        assert elements(
            lambda z=zero, n=lengths: F.ctc_loss(
                x, torch.tensor([TARGET]), *n, reduction="none", zero_infinity=z
            )
        ) == [wanted]
