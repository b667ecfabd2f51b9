"""The mistakes in a file that people write, before a server or a cluster reads it."""
