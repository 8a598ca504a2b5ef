"""The version of the package, for the command line and for files."""

__version__ = "0.1.0"
