"""`prefect-gpu optimize`: the changes that would save money, and what became of them."""
