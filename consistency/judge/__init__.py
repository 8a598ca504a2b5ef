"""From an outcome and its reference to a verdict: measurements, rules as data, what counts as
proof, what is known (``known``).

Measuring sees no tolerance, and judging sees no tensor.
"""
