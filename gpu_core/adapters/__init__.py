"""One thin module per outside system."""
