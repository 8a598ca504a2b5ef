"""``consistency.check``: a custom operator or kernel beside its reference.

- session: the derived calls, judged one after the other
- target: what is checked, by its schema; example calls
- kernel_backend: the kernel as a backend whose operator is the reference
- contract: what torch.library promises: opcheck, the fake kernel, torch.compile
- repeats: the same call again
- findings: what several results say together
- report: what people read
"""
