"""Prices, instance types and storage of AWS."""
