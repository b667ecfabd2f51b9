"""Which running workloads lose their place to others, and what that costs?"""
