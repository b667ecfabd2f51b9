"""The Jobs of attempts: created, read and cleaned up."""
