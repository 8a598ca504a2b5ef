"""How large budgets are beside the results that they admit: docs/budgets.md."""
