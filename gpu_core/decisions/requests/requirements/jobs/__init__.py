"""Jobs and the models that they train or ask."""
