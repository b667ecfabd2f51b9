"""Manifests that the worker writes in addition to those of attempts."""
