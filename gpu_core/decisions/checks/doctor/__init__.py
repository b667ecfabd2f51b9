"""What is wrong with an installation, and what helps? Facts come in, findings go out."""
