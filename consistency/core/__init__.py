"""The values that flow through the program, and what every package needs: number formats, recipes,
atomic file writes, processes of ours.

Nothing here depends on other packages, and nothing draws, runs or judges.
"""
