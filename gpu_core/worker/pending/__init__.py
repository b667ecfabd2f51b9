"""The runs that wait: what they ask for, why they wait, and when they are expected to start."""
