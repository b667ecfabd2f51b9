"""What to do, as pure functions over frozen values: no clock, no environment, no I/O."""
