"""Facts about torch's own calls, declared or not.

``signature`` reads torch's schemas and tags; ``aten`` and ``functions`` hold what these lack about
the operators under ``aten::`` and torch's public functions. Tables of names, no tensors:
:mod:`consistency.generate.calls` holds what such a call computes, and how precisely.
"""
