"""How long runs take, and when those that wait start."""
