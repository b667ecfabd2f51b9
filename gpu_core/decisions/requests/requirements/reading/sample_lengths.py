"""The lengths of samples in a text, and the number of tokens in a size in bytes."""

import re

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.units import count
from gpu_core.decisions.requests.requirements.jobs.number_words import NUMBER, number_of
from gpu_core.decisions.requests.requirements.reading.nouns import SAMPLES
from gpu_core.decisions.requests.requirements.reading.prompt_lengths import TOKENS_PER_WORD
from gpu_core.decisions.requests.requirements.reading.text_line import TextLine

TEXT_BYTES = (
    r"(?P<number>\d[\d,]*(?:\.\d+)?) ?(?P<scale>[kmgt])i?b(?: of)? (?:[a-z-]+ ){0,2}?"
    r"(?:texts?|corpus|corpora|code|articles|books|logs|transcripts)"
)
_SCALE_BYTES = {"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_BYTES_PER_TOKEN = 4
"""Of English (OpenAI, tokenizer page, 2023: a token is about four characters)."""

_TEXT_LENGTH = rf"{NUMBER}[ -](?P<unit>token|word|page)s?"
_TOKENS_PER = {"token": 1.0, "word": TOKENS_PER_WORD, "page": 500 * TOKENS_PER_WORD}
"""A page of print has about 500 words."""
_MEAN = r"(?:avg\.?|average|averaging|mean|median)"


# `average sequence length 700` is no limit of a sequence; `average length 35 seconds` is audio.
_MEAN_LENGTH = (
    rf"(?:an? )?{_MEAN} "
    r"(?:(?:context|sequence|seq|sample|document|doc|text|example|chat|message) )?"
    rf"len(?:gth)?(?: of| is| ?[:=])? ?{NUMBER}(?:[ -]?(?P<unit>token|word|page)s?)?"
    r"(?![ -]?(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?)\b)"
)


def take_mean_length(line: TextLine) -> float | None:
    """How many tokens has a sample on average, where the text calls it a length?

    What is read is taken from the line; None: nothing is said.

    Raises:
        InvalidInput: The length cannot be.
    """
    match = line.take(_MEAN_LENGTH)
    return None if match is None else _noted_length(line, match)


def take_tokens_per_sample(line: TextLine) -> float | None:
    """How many tokens has a sample? `4k-token documents`, `averaging 500 words`, `40 pages each`.

    What is read is taken from the line; None: nothing is said.

    Raises:
        InvalidInput: The length cannot be.
    """
    before = re.search(rf"(?<![\w.]){_TEXT_LENGTH} (?=(?:{SAMPLES})(?!\w))", line.text)
    if before is not None:
        # Without a mark: `20k 4k-token documents` are 20k documents.
        line.text = line.text[: before.start()] + line.text[before.end() :]
        return _noted_length(line, before)
    after = re.search(
        rf"(?<=\w) (?:(?:of|with|at|{_MEAN}|each|around|about|on average|x|,|\() ?)+ ?"
        rf"{_TEXT_LENGTH}(?: each| per (?:{SAMPLES})| on average|\))*",
        line.text,
    )
    if after is None or re.search(rf"\b(?:{SAMPLES})$", line.text[: after.start()]) is None:
        each = (
            line.take(rf"(?:each )?{_TEXT_LENGTH}(?: long)? (?:each|on average|per (?:{SAMPLES}))")
            or line.take(rf"each (?:with|of|has|having) (?:about |around )?{_TEXT_LENGTH}")
            or line.take(rf"{_MEAN}(?: length)?(?: of| is| ?[:=])? ?{_TEXT_LENGTH}")
        )
        return None if each is None else _noted_length(line, each)
    line.text = f"{line.text[: after.start()]} ; {line.text[after.end() :]}"
    return _noted_length(line, after)


def _noted_length(line: TextLine, match: re.Match[str]) -> float:
    unit = match["unit"] or "token"
    length = length_of(match, unit)
    tokens = round(length * _TOKENS_PER[unit])
    if unit != "token":
        line.understand(f"{count(length, unit)} per sample")
        line.assume(f"{_TOKENS_PER[unit]:,.3g} tokens per {unit}")
    else:
        line.understand(f"{count(tokens, unit)} per sample")
    return float(tokens)


def take_bytes_of_text(line: TextLine) -> float | None:
    """`15 GB of text` in tokens. What is read is taken from the line; None: nothing is said."""
    match = line.take(TEXT_BYTES)
    if match is None:
        return None
    size = float(match["number"].replace(",", "")) * _SCALE_BYTES[match["scale"]]
    line.assume(f"{_BYTES_PER_TOKEN} bytes of text per token")
    return size / _BYTES_PER_TOKEN


def length_of(match: re.Match[str], unit: str = "token") -> int:
    """The length or size that `NUMBER` has found.

    Raises:
        InvalidInput: It cannot be.
    """
    # A context of 4k is 4,096 tokens.
    number = round(number_of(match) * (1.024 if match[2] == "k" and unit == "token" else 1))
    if not 1 <= number <= 100_000_000:
        raise InvalidInput(
            "text", "has a size that cannot be", got=match[0], allowed="1 to 100,000,000"
        )
    return number
