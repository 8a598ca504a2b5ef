"""Watching a program: every call that it makes of torch's operators becomes a case, which is judged
on other backends.

capture.py   the dispatch mode, and what becomes of a call: a case with literal tensors, or a reason
why not kinds.py     which operators are left out and why; when two calls are of one kind modules.py
which module a call belongs to, of a gradient the one that it goes through session.py   the context
manager: collects, judges, tells text.py      what it says in words
"""
