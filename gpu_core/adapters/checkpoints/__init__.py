"""Checkpoint stores: folders and buckets."""
