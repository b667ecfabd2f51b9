"""What was saved, and what could be: spot, elasticity, commitments, cheaper GPU types."""
