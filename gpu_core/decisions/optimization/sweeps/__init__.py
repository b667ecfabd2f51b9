"""The runs of a sweep that get more dollars, and those that stay parked."""
