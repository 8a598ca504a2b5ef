"""What runs the cases of somebody else's recordings: processes with bounds, one case after another.

A case that ends its process costs its own result; the next one gets a new process.
"""
