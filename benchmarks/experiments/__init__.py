"""The experiments behind docs/judging.md, which ``benchmarks/judging_model.py`` runs."""
