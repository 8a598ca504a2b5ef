"""Models and their training compared with float64: do only rounding errors grow, and if not, which
operator of which module is wrong first?

A model run is a copy of a model on one backend; a float64 reference and perturbed replicas of it
show the effect of rounding (``rounding_envelope``). ``trace/`` records and judges the operator
calls of a running program, ``examples/`` holds small models with known results. Code about single
operators belongs in a room to the left.
"""
