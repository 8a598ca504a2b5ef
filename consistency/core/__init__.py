"""The values that flow through the program, and what every room needs: number formats, recipes,
files written whole.

Nothing of another room may be here, and nothing that draws, runs or judges.
"""
