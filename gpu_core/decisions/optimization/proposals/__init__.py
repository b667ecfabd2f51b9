"""The changes that would save money, how sure that is, and what they saved when they were made."""
