"""Findings about an installation, with their remedies. Facts come in, findings go out."""
