"""What ``benchmarks/nightly_simulation.py`` is made of: a year, its bundles, and how well what was
planted is found."""
