"""`prefect-gpu optimize`: what would save money, and what became of it?"""
