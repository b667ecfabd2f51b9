"""Usage and its cost in exact numbers: what was held, for how long, at which price, what for."""
