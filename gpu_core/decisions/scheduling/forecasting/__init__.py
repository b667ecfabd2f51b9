"""The times that runs take, and the starts of those that wait."""
