"""Text as every database keeps it."""


def clean_text(text: str) -> str:
    """The part of this text that every database stores unchanged.

    PostgreSQL has no NUL, and UTF-8 no half of a surrogate pair: U+FFFD replaces them.
    """
    encoded = text.replace("\0", "\ufffd").encode("utf-8", "surrogatepass")
    return encoded.decode("utf-8", "replace")
