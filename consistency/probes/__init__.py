"""Black-box probes of a backend: arithmetic properties (``fingerprint``), summation order
(``summation``), error against size (``sweep``), differences between two backends (``explain``).

Probes return values and text; they store nothing.
"""
