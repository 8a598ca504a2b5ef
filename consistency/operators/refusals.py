"""How an operator refuses a call: what is tried on purpose may be refused."""

from __future__ import annotations

# What an operator, or its ``sample`` function, may raise with sizes, options or arguments that it
# was not made for. Anything else is a fault of a declaration, or of ours.
REFUSALS = (
    RuntimeError,
    ValueError,
    IndexError,
    TypeError,
    NotImplementedError,
    AttributeError,
    KeyError,
    ArithmeticError,
    AssertionError,  # multi_head_attention_forward checks its sizes so
)
