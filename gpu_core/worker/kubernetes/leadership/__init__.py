"""Which worker acts for the pool."""
