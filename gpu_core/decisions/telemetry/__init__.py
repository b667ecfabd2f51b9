"""What GPUs do: samples, what they add up to, and whether a GPU is well."""
