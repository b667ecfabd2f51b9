"""Inference that is measured: on what a run has, in processes of its own."""
