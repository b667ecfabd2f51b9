"""What containers print, on the pages of their runs."""
