"""What the runs of a team may ask for."""
