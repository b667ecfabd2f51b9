"""What a run asks for, what it may ask for, and what it is given."""
