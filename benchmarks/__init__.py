"""What is measured rather than tested: `make bench`."""
