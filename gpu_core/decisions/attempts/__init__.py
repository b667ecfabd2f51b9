"""What an attempt did, how it ended, and whether the run starts again."""
