"""One case through everything, and what is made of a failure: run again, perturbed, attributed,
bisected, made smaller.

Nothing is written to disk here, nothing is told to people, and no run is planned.
"""
