"""The lengths of prompts and answers in a text, such as `512 tokens in, 128 out`."""

import re
from dataclasses import dataclass

from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.requests.requirements.jobs.number_words import number_of
from gpu_core.decisions.requests.requirements.reading.text_line import TextLine

TOKENS_PER_WORD = 4 / 3
"""Of English (OpenAI, tokenizer page, 2023: 100 tokens are about 75 words)."""

# As in NUMBER, without the letters of a model's size: `a 7B in 4 bits` has no prompt.
_NUMBER = r"(\d[\d,]*(?:\.\d+)?)\s*(k)?\b"
_ABOUT = r"(?:up to |at most |about |around |roughly |~ ?|max(?:imum)?(?: of)? |an average of )?"
_TOKENS = r"[ -]tokens?"
_IS = r"(?:(?: of| with| up to| at most| ?[=:]) ?)*"
_END = (
    r"(?= *(?:[;/+&)]|[,.](?!\d)|(?:and|each|for|with|on|at|per)\b"
    r"|\d[\d,]*k? ?(?:tokens? )?(?:out|output|generated)\b|$))"
)
_ANSWERS = r"answers?|outputs?|completions?|responses?|replies|summaries|summary|generations?"

# Of a prompt; each has the two groups of _NUMBER.
_PROMPT = (
    rf"{_ABOUT}{_NUMBER}(?:{_TOKENS})? (?:input|prompt|context)(?:{_TOKENS})(?: each)?",
    rf"{_ABOUT}{_NUMBER}(?:{_TOKENS})? (?:in|input){_END}",
    rf"{_ABOUT}{_NUMBER} input(?= \d)",
    rf"(?:input|prompt)(?:s|[ _-]tokens?|[ _-]length)?{_IS} ?{_NUMBER}(?:{_TOKENS}|{_END})",
)
_ANSWER = (
    rf"{_ABOUT}{_NUMBER}(?: max)?(?:{_TOKENS})? (?:output|generated|new|completion|answer|response)"
    rf"(?:{_TOKENS})(?: each)?",
    rf"{_ABOUT}{_NUMBER}(?:{_TOKENS})? (?:out|output|generated){_END}",
    rf"(?:max[ _-])?(?:new|output)[ _-]tokens?{_IS} ?{_NUMBER}",
    rf"(?:generat\w*|writ\w*) {_ABOUT}{_NUMBER}{_TOKENS} (?:each|per [a-z]+|for each [a-z]+)",
    rf"{_ABOUT}{_NUMBER}{_TOKENS} (?:per|for each) (?:{_ANSWERS})",
    rf"(?:an? )?{_ABOUT}{_NUMBER}[ -]token (?:{_ANSWERS})",
    rf"(?:{_ANSWERS})(?:[ _-]length)?{_IS} ?{_NUMBER}(?:{_TOKENS}|{_END})",
    rf"{_ABOUT}{_NUMBER}{_TOKENS} of (?:reasoning|thinking|thoughts?|output)(?: each)?",
)
_ANSWER_WORDS = (
    rf"(?:in|into|to) {_ABOUT}{_NUMBER} words(?: each)?",
    rf"(?:{_ANSWERS}){_IS} ?{_ABOUT}{_NUMBER} words",
    rf"(?:an? )?{_NUMBER}[ -]word (?:{_ANSWERS})",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLengths:
    """Tokens of one prompt and of its answer. None: nothing is said."""

    prompt: int | None = None
    answer: int | None = None

    @property
    def sample(self) -> int | None:
        """Of both together, as a training sees them."""
        if self.prompt is None and self.answer is None:
            return None
        return (self.prompt or 0) + (self.answer or 0)


def take_answer_tokens(line: TextLine) -> int | None:
    """How many tokens has an answer? What is read is taken from the line; None: nothing is said.

    Raises:
        InvalidInput: The length cannot be.
    """
    answer = _take(line, _ANSWER)
    if answer is None:
        words = _take(line, _ANSWER_WORDS)
        answer = None if words is None else round(words * TOKENS_PER_WORD)
    if answer is not None:
        line.understand(f"{answer:,} tokens per answer")
    return answer


def take_prompt_tokens(line: TextLine) -> int | None:
    """How many tokens has a prompt? What is read is taken from the line; None: nothing is said.

    Raises:
        InvalidInput: The length cannot be.
    """
    prompt = _take(line, _PROMPT)
    if prompt is not None:
        line.understand(f"{prompt:,} tokens per prompt")
    return prompt


def _take(line: TextLine, patterns: tuple[str, ...]) -> int | None:
    for pattern in patterns:
        match = re.search(rf"(?<![\w.]){pattern}(?!\w)", line.text)
        if match is None:
            continue
        # `50k summaries of 100 words`: the noun stays, with the number before it.
        noun = re.match(_ANSWERS, match[0])
        kept = "" if noun is None else noun[0]
        line.text = f"{line.text[: match.start()]}{kept} ; {line.text[match.end() :]}"
        return _length(match)
    return None


def _length(match: re.Match[str]) -> int:
    # A prompt of 4k is 4,096 tokens.
    number = round(number_of(match) * (1.024 if match[2] == "k" else 1))
    if not 1 <= number <= 100_000_000:
        raise InvalidInput(
            "text", "has a length that cannot be", got=match[0], allowed="1 to 100,000,000 tokens"
        )
    return number
