"""Models and their training beside float64: is it rounding that grew, and if not, which operator of
which module is the first?

Compared are worlds, that is copies of a model on one backend, with a float64 reference and the
replicas of it that say what rounding alone does (``rounding_envelope``). ``trace/`` records and
judges the operator calls of a running program, ``examples/`` holds small models with known results.
Whatever knows a single operator only belongs to a room to the left.
"""
