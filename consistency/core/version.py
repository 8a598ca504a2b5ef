"""The version of the package, for the command line and for what is written to disk."""

__version__ = "0.1.0"
