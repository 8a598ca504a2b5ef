"""The command line: options, what is said of mistakes, and a module for each command.

Nothing is computed here that a Python program could not ask for.
"""
