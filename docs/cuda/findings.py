"""What torch computes wrongly on CUDA, one line each: what CUDA gives, and what is right."""

import math
import sys

import torch
from torch import nn
from torch.nn import functional as F

D = torch.device("cuda")
nan, inf = math.nan, math.inf


def sort_nan():
    """sort puts a NaN with a sign bit first (pytorch#190781)"""
    x = torch.arange(200.0)
    x[7] = -nan
    return int(x.to(D).sort().values.isnan().nonzero()), 199


def nanquantile_nan():
    """... and nanquantile takes it for a number"""
    x = torch.arange(200.0)
    x[7] = -nan
    return float(torch.nanquantile(x.to(D), 0.0)), 0.0


def eig_input():
    """linalg.eig overwrites its input where it lies in the order of columns"""
    x = torch.rand(5, 5).T.to(D)
    before = x.clone()
    torch.linalg.eig(x)
    return bool((x == before).all()), True


def zero_version():
    """_foreach_zero_ does not move version counters"""
    x = torch.ones(3, device=D)
    torch._foreach_zero_([x])
    return x._version, 1


def lerp_version():
    """_foreach_lerp_ with a number does not, either"""
    x = torch.ones(3, device=D)
    torch._foreach_lerp_([x], [x.clone()], 0.5)
    return x._version, 1


def avg_pool_out():
    """avg_pool2d ignores the strides of out="""
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    out = torch.zeros(1, 1, 2, 4, device=D)[..., ::2]
    torch._C._nn.avg_pool2d(x.to(D), 2, out=out)
    return out.flatten().tolist(), F.avg_pool2d(x, 2).flatten().tolist()


def avg_pool_gradient():
    """avg_pool1d: gradient of a transposed input with padding (pytorch#188344)"""
    x = torch.rand(2, 3, 3).to(D).transpose(1, 2).requires_grad_()
    F.avg_pool1d(x, 3, stride=1, padding=1).sum().backward()
    return round(float(x.grad.sum()), 3), 14.0


def adaptive_stride():
    """adaptive_avg_pool1d of one channel follows a stride that nothing defines: largest error"""
    x = torch.arange(162.0).reshape(3, 54).as_strided((3, 1, 54), (54, 7, 1))
    right = F.adaptive_avg_pool1d(x.contiguous(), 7)
    return float((F.adaptive_avg_pool1d(x.to(D), 7).cpu() - right).abs().max()), 0.0


def rnn_state():
    """lstm refuses a strided state"""
    lstm = nn.LSTM(3, 4).to(D)
    state = torch.zeros(1, 2, 8, device=D)[..., ::2]
    return told(lambda: lstm(torch.zeros(5, 2, 3, device=D), (state, state))), "no error"


def rnn_weights():
    """gru refuses strided weights"""
    gru = nn.GRU(3, 4).to(D)
    weights = [
        w.detach().mT.contiguous().mT if w.ndim > 1 else w.detach() for w in gru.parameters()
    ]
    state = torch.zeros(1, 2, 4, device=D)
    x = torch.zeros(5, 2, 3, device=D)

    def call():
        return torch.gru(x, state, weights, True, 1, 0.0, True, False, False)

    return told(call), "no error"


def rnn_gradient():
    """gru has no gradients without training"""
    gru = nn.GRU(3, 4).to(D).eval()
    x = torch.zeros(5, 2, 3, device=D, requires_grad=True)
    return told(lambda: gru(x)[0].sum().backward()), "no error"


def channel_shuffle():
    """channel_shuffle refuses a strided image"""
    x = torch.zeros(2, 3, 4, 4, device=D).permute(0, 2, 1, 3)
    return told(lambda: F.channel_shuffle(x, 2)), "no error"


def group_norm_format():
    """group_norm loses channels_last (pytorch#111824)"""
    x = torch.rand(2, 4, 3, 3, device=D).contiguous(memory_format=torch.channels_last)
    return F.group_norm(x, 2).is_contiguous(memory_format=torch.channels_last), True


def hardsigmoid_sixth():
    """hardsigmoid in float64 multiplies by a sixth of float32"""
    x = torch.tensor([2.0], dtype=torch.float64)
    return float(F.hardsigmoid(x.to(D))), float(F.hardsigmoid(x))


def silu_infinity():
    """silu(-inf) is NaN (pytorch#160876)"""
    return float(F.silu(torch.tensor([-inf], device=D))), -0.0


def mask_of_one_column():
    """scaled_dot_product_attention refuses a mask of one column"""
    q = torch.rand(2, 2, 5, 4, device=D)
    k = torch.rand(2, 2, 6, 4, device=D)
    mask = torch.rand(1, 1, device=D)
    return told(lambda: F.scaled_dot_product_attention(q, k, k, attn_mask=mask)), "no error"


def antialias():
    """interpolate with antialias refuses a large scale"""
    x = torch.rand(2, 2, 4097, 2, device=D)
    return told(lambda: F.interpolate(x, [4, 9], mode="bicubic", antialias=True)), "no error"


def trace_gradient():
    """trace: the gradient of a tall matrix has a second diagonal before 2.13 (pytorch#171704)"""
    x = torch.zeros(6, 2, device=D, requires_grad=True)
    x.trace().backward()
    return int(x.grad.sum()), 2


def log_of_one():
    """log of complex numbers of magnitude 1"""
    z = torch.polar(torch.tensor(1.0 + 2e-4), torch.tensor(0.7))
    right = float(z.to(torch.complex128).log().real)
    return float(z.to(D).log().real), right


def std_large():
    """std adds squares in float32 (pytorch#180156)"""
    x = torch.tensor([1e20, -1e20, 3e20])
    return float(x.to(D).std()), float(x.double().std())


def atomic_subnormal():
    """index_add_ takes subnormal numbers for zero (PTX: atom.add.f32)"""
    x = torch.zeros(1, device=D)
    return float(
        x.index_add_(
            0, torch.zeros(3, dtype=torch.int64, device=D), torch.full((3,), 2e-39, device=D)
        )
    ), 6e-39


def divide_by_number():
    """a quotient by a number is a product with its reciprocal (pytorch#84194)"""
    return float(torch.tensor([169.0], device=D) / 13.0), 13.0


def sinc_large():
    """sinc of large numbers is NaN"""
    return float(torch.sinc(torch.tensor([2e38], device=D))), 0.0


def rows_of_a_transform():
    """rfft of an odd length: NaN in one row reaches the other"""
    x = torch.ones(2, 513)
    x[0, 0] = nan
    return bool(torch.fft.rfft(x.to(D))[1].isnan().any()), False


def precision_of_a_row():
    """... and the rounding of a row of 1e8 one of 1"""
    x = torch.rand(2, 513, generator=torch.Generator().manual_seed(0))
    x[0] *= 1e8
    off = torch.fft.rfft(x.to(D)).cpu()[1] - torch.fft.rfft(x.double())[1]
    return float(off.abs().max()) < 0.01, True


def batched_qr():
    """linalg.qr of a batch is NaN from 2^63 on; of one matrix it is not"""
    x = torch.rand(3, 5, 4, generator=torch.Generator().manual_seed(0)).to(D) * 2.0**64
    finite = [bool(torch.linalg.qr(m, mode="r").R.isfinite().all()) for m in (x[0], x)]
    return finite, [True, True]


def weight_gradient():
    """conv2d: cuDNN's gradient of 5 x 5 weights, in u of the magnitudes' sum"""
    numbers = torch.Generator().manual_seed(0)
    x = torch.rand(2, 32, 32, 32, generator=numbers) * 2 - 1
    g = torch.randn(2, 5, 28, 28, generator=numbers)
    w = torch.ones(5, 32, 5, 5)

    def gradient(x, g, w):
        rest = [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False]
        return torch.ops.aten.convolution_backward(g, x, w, None, *rest)[1].cpu().double()

    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        off = gradient(x.to(D), g.to(D), w.to(D)) - gradient(x.double(), g.double(), w.double())
    terms = gradient(x.double().abs(), g.double().abs(), w.double())
    return float((off.abs() / terms).max() * 2**24) < 100, True


def fused_adam():
    """optim.AdamW(fused=True): 1 - 0.999 in float32 (since pytorch#154069)"""
    steps = []
    for fused in (True, False):
        x = torch.ones(1, device=D, requires_grad=True)
        x.grad = torch.ones(1, device=D)
        torch.optim.AdamW([x], lr=1.0, betas=(0.0, 0.999), weight_decay=0.0, fused=fused).step()
        steps.append(round(float(x), 5))
    return steps[0], steps[1]


def misaligned_key():
    """scaled_dot_product_attention with a key that does not begin at 16 bytes"""
    q = torch.rand(2, 2, 5, 4, device=D)
    k = torch.rand(97, device=D)[1:].view(2, 2, 6, 4)
    v = torch.rand(2, 2, 6, 4, device=D)

    def call():
        return float(F.scaled_dot_product_attention(q, k, v, is_causal=True).sum())

    return told(call), "no error"


def told(call):
    """The last line of the exception, or that there is none."""
    try:
        call()
        return "no error"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:110]}"


FINDINGS = [
    value
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", "") == __name__ and name != "told"
]

if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("no CUDA device here")
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name()}")
    for finding in FINDINGS:  # the last one leaves a context in which nothing works
        try:
            gives, right = finding()
        except Exception as error:
            gives, right = f"{type(error).__name__}: {error}", "?"
        mark = "   " if gives == right else " ✗ "
        print(f"{mark}{finding.__doc__}\n      {gives}; {right} is right", flush=True)
