"""Certified values: enclosures of the exact result of single elements, proved by ball arithmetic.

A call is traced to ATen operators (``tracing``), each of which is entered in ``entries`` as a
formula of a few kinds of ``nodes``: elementwise functions, movements, sums. Nodes are evaluated on
demand, for the elements that are asked for and no others, in balls of as many bits as it takes
(python-flint). Gradients are those of the definition: the nodes are differentiated here, backwards,
and no derivative of torch's is involved. What balls cannot decide is *unsure*, and nothing is
proved of it.
"""
