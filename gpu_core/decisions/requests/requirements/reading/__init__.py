"""A job from a line of text: what is understood, what is assumed, and what is refused."""
