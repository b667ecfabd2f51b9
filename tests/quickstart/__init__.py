"""The quickstart, run as a newcomer runs it."""
