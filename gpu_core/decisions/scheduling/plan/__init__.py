"""The plan of a cycle: its commands, its decisions, and the sentences that explain them."""
