"""The configurations of inference that cost less, beyond noise."""
