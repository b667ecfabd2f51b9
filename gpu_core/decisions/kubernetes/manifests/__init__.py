"""Manifests that the worker writes beside those of attempts."""
