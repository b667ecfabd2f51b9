"""The work and the end of an attempt, and whether its run starts again."""
