"""The attempts of a worker: launched, watched, terminated and settled."""
