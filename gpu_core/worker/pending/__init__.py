"""The runs that wait: what they ask for, what they are told and when they are expected to start."""
