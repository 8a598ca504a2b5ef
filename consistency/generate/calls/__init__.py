"""Other sources of cases than drawing: PyTorch's operator database, functions by name, calls of
ATen in a program."""
