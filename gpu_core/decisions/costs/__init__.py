"""What runs cost, and which costs are unusual."""
