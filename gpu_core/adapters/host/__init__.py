"""This machine, as its operating system shows it, and its kubelet."""
