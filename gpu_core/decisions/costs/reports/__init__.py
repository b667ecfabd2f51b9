"""Reports of costs: by day, week and month, by team and more, and for single runs."""
