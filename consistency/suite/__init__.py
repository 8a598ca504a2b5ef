"""The suite for pytest: ``pytest --pyargs consistency.suite --backends cuda -k matmul``."""
