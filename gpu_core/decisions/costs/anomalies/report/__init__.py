"""The report of a day's cost, for people."""
