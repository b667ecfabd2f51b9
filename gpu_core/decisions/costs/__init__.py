"""What runs and machines cost, which costs are unusual, and what could be saved."""
