"""Whether results depend on repetition, batch size, layout, or the number of threads.

Runs are compared by a hash over many results, since single results may agree by chance. Equal
repetitions do not prove determinism.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch

from . import samples
from .facts import Fact, unknown
from .query import Ask, NotAnswered, Request, call, words

REPEATS = 6
BATCHES = (1, 2, 3, 4, 7, 8, 15, 16, 17, 32, 64, 128)
_K, _N = 512, 64


def random(shape: tuple[int, ...], dtype: str = "float32", turn: int = 0) -> torch.Tensor:
    """Random numbers with so many bits that every sum of their products is rounded."""
    bits = {"float64": 24, "float32": 24, "float16": 10, "bfloat16": 8}[dtype]
    return torch.from_numpy(samples.integers(shape, bits, turn) * 2.0 ** (1 - bits)).to(
        getattr(torch, dtype)
    )


def digest(tensor: torch.Tensor) -> str:
    return hashlib.sha256(words(tensor).tobytes()).hexdigest()[:10]


def facts(ask: Ask) -> Iterator[Fact]:
    nondeterministic = set()
    for fact in repeated(ask):
        yield fact
        if fact.known and not fact.usual:
            nondeterministic.add(fact.question.partition("/")[0])
    for fact in (*batches(ask), *layouts(ask), *threads(ask)):
        name = fact.question.partition("/")[0]
        yield (
            unknown(fact.question, "the bits change from run to run")
            if fact.known and name in nondeterministic
            else fact
        )


def _is_constant(answers: Iterable[torch.Tensor]) -> bool:
    """Whether some result has the same bits in all elements, so that comparing it is
    meaningless."""
    return any(answer.numel() > 1 and np.unique(words(answer)).size == 1 for answer in answers)


def _requests() -> dict[str, Request]:
    index = torch.from_numpy((samples.raw(1 << 14, 3) % np.uint64(16)).astype(np.int64))
    values = random((1 << 14,), turn=1)
    rows = random((256, _K))
    return {
        "matmul": call("matmul", "float32", rows[:128], random((_K, _N), turn=1)),
        "linear": call(
            "nn.functional.linear",
            "float32",
            rows[:128],
            random((_N, _K), turn=1),
            random((_N,), turn=2),
        ),
        "bmm": call("bmm", "float32", rows.reshape(4, 64, _K), random((4, _K, 16), turn=1)),
        "conv2d": call(
            "nn.functional.conv2d",
            "float32",
            random((2, 32, 16, 16)),
            random((16, 32, 3, 3), turn=1),
        ),
        "sum": call("sum", "float32", random((4096, 32)), 0),
        "softmax": call("softmax", "float32", rows, 1),
        "layer_norm": call("nn.functional.layer_norm", "float32", rows, [_K]),
        "cumsum": call("cumsum", "float32", values, 0),
        "index_add": call("index_add", "float32", torch.zeros(16), 0, index, values),
        "scatter_add": call("scatter_add", "float32", torch.zeros(16), 0, index, values),
        "bincount": call("bincount", "int64", index, values),
        "embedding_bag": call(
            "nn.functional.embedding_bag",
            "float32",
            (index % 16)[:4096].reshape(16, 256),
            random((16, 8), turn=2),
        ),
    }


def repeated(ask: Ask) -> Iterator[Fact]:
    """``OPERATOR/float32/repeated``: the same call several times."""
    for name, request in _requests().items():
        question = f"{name}/float32/repeated"
        try:
            answers = [ask(request.operator, request.dtype, *request.args) for _ in range(REPEATS)]
        except NotAnswered as reason:
            yield unknown(question, str(reason))
            continue
        if _is_constant(answers):
            yield unknown(question, "all results are the same number")
            continue
        digests = {digest(answer) for answer in answers}
        evidence = f"{answers[0].numel()} results, {REPEATS} times"
        if len(digests) > 1:
            yield Fact(
                question, "other bits from run to run", f"{evidence}: {len(digests)} different ones"
            )
        else:
            yield Fact(question, "same bits", evidence, usual=True)


def _classes(names: Sequence[str], digests: Sequence[str]) -> str:
    """Groups of equal digests by name: ``1 | 2 … 15 | 16 … 128``, ``a, c | b``."""
    groups: dict[str, list[int]] = {}
    for position, digest_ in enumerate(digests):
        groups.setdefault(digest_, []).append(position)
    return " | ".join(_run(names, members) for members in groups.values())


def _run(names: Sequence[str], members: list[int]) -> str:
    if (
        len(members) > 2
        and members == list(range(members[0], members[-1] + 1))
        and names[0].isdigit()
    ):
        return f"{names[members[0]]} … {names[members[-1]]}"
    return ", ".join(names[i] for i in members)


def batches(ask: Ask) -> Iterator[Fact]:
    """``…/batch``: the bits of the first row in batches of different sizes."""
    a, b, bias = random((BATCHES[-1], _K)), random((_K, _N), turn=1), random((_N,), turn=2)
    weight = b.T.contiguous()
    kernel, images = random((16, 8, 3, 3), turn=1), random((BATCHES[-1], 8, 8, 8))
    makers: dict[str, Callable[[int], Request]] = {
        "matmul": lambda m: call("matmul", "float32", a[:m].clone(), b),
        "linear": lambda m: call("nn.functional.linear", "float32", a[:m].clone(), weight, bias),
        "bmm": lambda m: call(
            "bmm", "float32", a[:m].reshape(m, 1, _K).clone(), b.expand(m, _K, _N).contiguous()
        ),
        "conv2d": lambda m: call("nn.functional.conv2d", "float32", images[:m].clone(), kernel),
        "softmax": lambda m: call("softmax", "float32", a[:m].clone(), 1),
        "layer_norm": lambda m: call("nn.functional.layer_norm", "float32", a[:m].clone(), [_K]),
        "sum": lambda m: call("sum", "float32", a[:m].clone(), 1),
    }
    for name, make in makers.items():
        sizes = [m for m in BATCHES if name != "bmm" or m <= 16]
        yield _compared(
            ask,
            f"{name}/float32/batch",
            [str(m) for m in sizes],
            [make(m) for m in sizes],
            lambda t: t[:1],
        )


def layouts(ask: Ask) -> Iterator[Fact]:
    """``…/layout``: the same numbers with different strides."""
    a, b = random((48, _K)), random((_K, _N), turn=1)
    at, bt = a.T.contiguous().T, b.T.contiguous().T
    names = ["contiguous", "left transposed", "right transposed", "both transposed"]
    pairs = [(a, b), (at, b), (a, bt), (at, bt)]
    yield _compared(
        ask, "matmul/float32/layout", names, [call("matmul", "float32", *pair) for pair in pairs]
    )
    image, kernel = random((4, 16, 12, 12)), random((16, 16, 3, 3), turn=1)
    channels = [t.contiguous(memory_format=torch.channels_last) for t in (image, kernel)]
    names = ["contiguous", "channels last"]
    calls = [call("nn.functional.conv2d", "float32", *pair) for pair in ((image, kernel), channels)]
    yield _compared(ask, "conv2d/float32/layout", names, calls)
    rows = random((64, 300))
    strided = rows.T.contiguous().T
    yield _compared(
        ask,
        "sum/float32/layout",
        ["rows", "columns"],
        [call("sum", "float32", x, 1) for x in (rows, strided)],
    )
    spaced = torch.zeros(64, 600)[:, ::2].copy_(rows)
    yield _compared(
        ask,
        "exp/float32/layout",
        ["contiguous", "every other"],
        [call("exp", "float32", x) for x in (rows, spaced)],
    )


def threads(ask: Ask) -> Iterator[Fact]:
    """``…/threads``: the default number of threads and one thread, for backends that can switch."""
    one_thread = ask.variant("one thread")
    if one_thread is None:
        return
    requests = {
        "matmul": call("matmul", "float32", random((32, 2048)), random((2048, 64), turn=1)),
        "linear": call(
            "nn.functional.linear",
            "float32",
            random((32, 2048)),
            random((64, 2048), turn=1),
            random((64,), turn=2),
        ),
        "sum": call("sum", "float32", random((1 << 18,))),
        "softmax": call("softmax", "float32", random((4, 1 << 15)), 1),
        "conv2d": call(
            "nn.functional.conv2d",
            "float32",
            random((4, 32, 16, 16)),
            random((32, 32, 3, 3), turn=1),
        ),
    }
    for name, request in requests.items():
        question = f"{name}/float32/threads"
        try:
            digests = [
                digest(query(request.operator, request.dtype, *request.args))
                for query in (ask, one_thread, one_thread, ask)
            ]
        except NotAnswered as reason:
            yield unknown(question, str(reason))
            continue
        if digests[0] != digests[3] or digests[1] != digests[2]:
            yield unknown(question, "the bits change from run to run")
            continue
        same = digests[0] == digests[1]
        yield Fact(
            question,
            "same bits with one thread" if same else "other bits with one thread",
            usual=same,
        )


def _compared(
    ask: Ask,
    question: str,
    names: Sequence[str],
    requests: Sequence[Request],
    part: Callable[[torch.Tensor], torch.Tensor] = lambda t: t,
) -> Fact:  # fmt: skip
    """Which calls give the same bits. Each is made twice, since a nondeterministic call shows
    nothing about batches or layouts."""
    try:
        runs = [ask.many(requests), ask.many(requests[::-1])[::-1]]
    except NotAnswered as reason:
        return unknown(question, str(reason))
    if _is_constant(answer for answers in runs for answer in answers):
        return unknown(question, "all results are the same number")
    first, second = ([digest(part(answer)) for answer in answers] for answers in runs)
    if first != second:
        return unknown(question, "the bits change from run to run")
    if len(set(first)) == 1:
        return Fact(question, "same bits", f"{', '.join(names)}", usual=True)
    return Fact(question, _classes(names, first), "calls with the same bits stand together")
