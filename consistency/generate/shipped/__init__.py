"""The cases that every run begins with, as recipes in files of this package, one per family of
operators: those that notice the most planted faults, and inputs of publicly reported bugs."""
