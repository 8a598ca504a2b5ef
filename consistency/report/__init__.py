"""What people look at: the terminal's progress and table, and the text of a failure."""
