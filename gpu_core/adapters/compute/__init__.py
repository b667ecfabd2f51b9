"""Small computations on a GPU, through the libraries that are installed."""
