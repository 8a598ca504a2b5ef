"""What is known of torch's own calls, declared or not.

``signature`` reads torch's schemas and tags; ``aten`` and ``functions`` hold what these do not say
of the operators under ``aten::`` and of torch's public functions. Tables of names, no tensors: what
such a call computes, and how well, is said in :mod:`consistency.generate.calls`.
"""
