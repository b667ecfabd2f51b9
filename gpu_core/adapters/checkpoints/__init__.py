"""Where checkpoints lie: folders and buckets."""
