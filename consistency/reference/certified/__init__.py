"""Certified values: enclosures of the exact result of single elements, proved by ball arithmetic.

``tracing`` records the ATen operators of a call; ``entries`` defines each of them by ``nodes``:
elementwise functions, movements of elements, sums. Only the requested elements are evaluated, in
balls (python-flint) whose precision is raised until the result is decided. Gradients come from
differentiating the nodes in reverse, independently of torch's autograd. Where balls cannot decide,
the result is *unsure* and nothing is proved.
"""
