"""The command line: options, hints for mistakes, and a module for each command.

Nothing is computed here; Python programs can do all that commands do.
"""
