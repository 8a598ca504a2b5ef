"""Tracing a program: each of its torch operator calls becomes a case, judged on other backends.

- capture: the dispatch mode; makes a case with literal tensors from a call, or a reason why not
- kinds: which operators are left out and why; when two calls are of one kind
- modules: the module of a call; of a gradient, the module that it passes through
- session: the context manager that collects and judges
- program: a whole program under a watch, until its first divergence
- text: the report in words
"""
