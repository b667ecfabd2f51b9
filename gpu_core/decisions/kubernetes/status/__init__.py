"""How Jobs and pods are, and how they ended."""
