"""Whether this machine's worker is the acting one: locks of files."""
