"""The amount of work in a text: numbers with their nouns, data sets, sizes of one sample."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_core.decisions.model.errors import listed
from gpu_core.decisions.requests.requirements.jobs.number_words import NUMBER, number_of
from gpu_core.decisions.requests.requirements.reading.datasets import (
    DATA_SETS,
    WITHOUT_SIZE,
    DataSet,
)
from gpu_core.decisions.requests.requirements.reading.nouns import IMAGES, SAMPLES
from gpu_core.decisions.requests.requirements.reading.prompt_lengths import (
    PromptLengths,
    take_answer_tokens,
    take_prompt_tokens,
)
from gpu_core.decisions.requests.requirements.reading.recordings import take_recordings
from gpu_core.decisions.requests.requirements.reading.sample_lengths import (
    TEXT_BYTES,
    length_of,
    take_bytes_of_text,
    take_mean_length,
    take_tokens_per_sample,
)
from gpu_core.decisions.requests.requirements.reading.text_line import NoEstimate, TextLine

_NOUNS = (
    ("parameters", r"param\w*"),
    ("images", IMAGES),
    ("tokens", r"tokens?"),
    ("words", r"words?"),
    ("epochs", r"epochs?|eps?|passes"),
    ("steps", r"steps?|iterations?"),
    ("samples", SAMPLES),
)
# Between a number and its noun: `10 million high-resolution images`, but not `7B on documents`.
_BETWEEN = (
    r"(?!(?:on|of|with|for|in|at|from|to|by|and|using|over|per) )"
    r"(?:(?:[a-z][a-z-]*|\d{2,5} ?x ?\d{2,5}|\d{2,5} ?px) ){0,2}?"
)

# Between the name of a size and its number: `batch size of 8`, `seq_len=8192`.
_IS = r"(?: of| ?[=:])? ?"
_LENGTH = r"(?:[ _-]?(?:length|len|window|size))?"

# `nightly batch: 500k documents` says no size of a batch.
_COUNTED = rf" (?:[a-z-]+ ){{0,2}}?(?:{SAMPLES}|{IMAGES}|tokens?)(?!\w)"

_SIZES = (
    (
        "batch_per_gpu",
        r"(?:a )?(?:per[ _-](?:device|gpu)[ _-])?(?:(?:train|eval|micro|mini)[ _-]?)?"
        rf"(?:batch(?:[ _-]?size)?|bs){_IS}{NUMBER}(?!{_COUNTED})(?: per (?:gpu|device))?",
    ),
    ("batch_per_gpu", rf"batches{_IS}{NUMBER}(?: per (?:gpu|device))?"),
    ("lora_rank", rf"(?:q?-?lora[ _-])?rank{_IS}{NUMBER}"),
    ("lora_rank", rf"(?:lora[ _-])?r ?= ?{NUMBER}"),
    ("lora_rank", rf"q?-?lora[ _-]r {NUMBER}"),
    (
        "sequence_length",
        r"(?:(?:with|at|of) )?(?:a )?(?:model[ _-])?(?:max(?:imum)?[ _-]?)?"
        rf"(?:(?:context|sequence|seq|ctx)s?{_LENGTH}|len(?:gth)?){_IS}{NUMBER}(?:[ -]tokens?)?",
    ),
    ("sequence_length", rf"(?:block|cut-?off)[ _-](?:size|len(?:gth)?){_IS}{NUMBER}"),
    ("sequence_length", rf"{NUMBER}(?:[ -]tokens?)? (?:context|sequence|seq|ctx)s?{_LENGTH}"),
    (
        "sequence_length",
        rf"{NUMBER}(?:[ -]tokens?)? max(?:imum)?[ _-](?:(?:context|sequence|seq|ctx){_LENGTH}"
        r"|len(?:gth)?)",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedAmounts:
    """The amounts in a text. None and empty: not stated."""

    counts: dict[str, float]
    """By noun: parameters, images, tokens, epochs, steps, samples, seconds."""
    tokens_per_sample: float | None
    data_set: DataSet | None
    sizes: dict[str, int]
    """Of `Job`: batch_per_gpu, lora_rank, sequence_length."""
    lengths: PromptLengths
    are_tokens_written: bool
    """The tokens that are counted are those of answers."""
    unread: tuple[str, ...]
    """Numbers with a noun that is not understood, such as `500 widgets`."""


_PERIODS = r"(?:seconds?|secs?|s|minutes?|mins?|hours?|hr|h|days?|d|nights?|weeks?|months?|years?)"
# `20 requests a second`, but not `for a day`.
_RATED = r"(?!(?:for|in|than|within|under|about|takes?|over) )[a-z]+"
_SCHEDULE = (
    r"daily|hourly|nightly|weekly|monthly|(?:every|each) (?:second |other )?"
    r"(?:day|night|week|month|hour|morning|evening|weekday|weekend)"
)


# Ways to say an amount that the readers below would cut or drop. Each is refused with an example.
_NOT_READ = (
    (r"\d+,\d{1,2}(?!\d|,\d)", "a point for decimals, such as 1.5 million"),
    (r"\d+(?:[_^]\d+|\.\d{3}\.\d{3}|(?:\.\d+)?e\d+)", "such as 1,000,000 or 1 million"),
    # A point for thousands: no part of a sample is one.
    (
        r"\d{1,3}\.\d{3} (?!(?:k|thousand|million|m|billion|bn|b|trillion|t) )(?:[a-z-]+ ){0,2}?"
        rf"(?:{SAMPLES}|{IMAGES}|tokens?|words?|steps?)(?!\w)",
        "such as 30,000",
    ),
    (r"\d[\d,.]*[km]? ?x ?\d[\d,.]*k? tokens?(?!\w)", "such as '20k samples of 512 tokens'"),
    (r"\d[\d,.]*[a-z]{0,2} ?(?:-|to) ?\d[\d,.]*[a-z]{0,2} [a-z]", "one number, not a range"),
    (r"\d+(?:\.\d+)? ?%|(?:half|quarter|third|subset|part) of", "a number, not a part of a whole"),
    (
        rf"(?!{TEXT_BYTES})\d[\d,.]* ?(?:[kmgt]i?b)(?!\w) ?(?:of|to|[a-z])",
        "a count, or for text also a size, such as '15 GB of text'",
    ),
    (r"\d[\d,.]*[a-z]?\+", "one number, not a bound"),
    (r"(?:dozens|hundreds|thousands|millions|billions|trillions) of", "a number"),
    (r"(?:couple|few|several) (?:of )?(?:hundred|thousand|million|billion|trillion)s?", "a number"),
    (
        r"\d[\d,.]* ?(?:milliard\w*|millionen|millones|mill?|mille|tausend|lakhs?|crores?|mio|mrd"
        r"|mln|bln|bill?|kk|(?:mm|mn|g)(?= (?:tokens?|words?|samples?|param\w*)))(?!\w)",
        "such as 1 billion, or digits",
    ),
    (r"(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)", "digits"),
    (
        rf"(?:[a-z]+ per |{_RATED} an? |[a-z]+ ?/ ?)(?:{_PERIODS})(?!\w)"
        r"|\d[\d,.]* ?k? ?(?:rps|qps|tps|rpm)(?!\w)",
        "the work of one period and its time, such as '72,000 requests within 1h', not a rate",
    ),
)


def refuse_unread_forms(line: TextLine) -> None:
    """Refuse amounts in a form that is not read, so that none is cut to another one.

    Raises:
        NoEstimate: There is one.
    """
    for pattern, allowed in _NOT_READ:
        found = re.search(rf"(?<![\w.$])(?:{pattern})", line.text)
        if found is not None:
            raise NoEstimate(
                "text", "has an amount in a form that is not read", got=found[0], allowed=allowed
            )


def take_amounts(
    line: TextLine, *, is_amount_known: bool = False, is_for_speech: bool = False
) -> StatedAmounts:
    """How much of what does the line count? What is read is taken from the line.

    Args:
        is_amount_known: The amount of work is known from elsewhere.
        is_for_speech: The model works on speech: `3,500 hours` are of audio.

    Raises:
        NoEstimate: An amount stands there that may be the length of a sample; or data sets are
            named that say no one amount, and `is_amount_known` is false.
    """
    schedule = line.take(f"(?:{_SCHEDULE})")
    if schedule is not None:
        line.assume(f"a single run ('{schedule[0]}' is not included)")
    mean = take_mean_length(line)
    sizes = _take_sizes(line)
    answer = take_answer_tokens(line)
    are_samples_written = line.has(_WRITTEN_SAMPLES)
    per_sample = take_tokens_per_sample(line) if mean is None else mean
    if are_samples_written and answer is None and per_sample is not None:
        answer, per_sample = max(1, round(per_sample)), None
    prompt = take_prompt_tokens(line)
    is_written = line.has(_WRITTEN)
    of_bytes = take_bytes_of_text(line)
    counts = take_recordings(line, is_for_speech=is_for_speech) | _take_counts(line)
    if of_bytes is not None:
        counts.setdefault("tokens", of_bytes)
    each = _tokens_of_each(counts)
    if each is not None and is_written and answer is None:
        answer = max(1, round(each))
        del counts["tokens"]
        line.understand(f"{answer:,} tokens per answer")
    elif each is not None and not is_written and per_sample is None:
        per_sample = each
        del counts["tokens"]
        line.understand(f"{each:,.0f} tokens per sample")
    other = counts.keys() & {"tokens", "words"}
    if "samples" in counts and other:
        raise NoEstimate(
            "text",
            f"counts samples and {' and '.join(sorted(other))}",
            allowed="such as '20k samples of 800 tokens' or '20k prompts, 800 tokens in, 100 out', "
            "or the tokens alone",
        )
    data_sets = [d for d in DATA_SETS if line.take(f"(?:{d.pattern})") is not None]
    if not is_amount_known and not counts.keys() - {"parameters", "epochs"}:
        _refuse_data_sets(data_sets, line)
    return StatedAmounts(
        counts=counts,
        tokens_per_sample=per_sample,
        data_set=next(iter(data_sets), None),
        sizes=sizes,
        lengths=PromptLengths(prompt=prompt, answer=answer),
        are_tokens_written=is_written,
        unread=_unread(line),
    )


def _refuse_data_sets(data_sets: Sequence[DataSet], line: TextLine) -> None:
    """One data set of a known size says an amount; several, or one of an unknown size, do not."""
    unknown = re.search(rf"(?<![\w.-])(?:{WITHOUT_SIZE})(?!\w)", line.text)
    if unknown is not None:
        raise NoEstimate(
            "text",
            "names a data set without known size",
            got=unknown[0],
            allowed=listed([data.name for data in DATA_SETS], limit=99),
            remedy="say how many samples or tokens are used, such as '50k samples'",
        )
    if len(data_sets) > 1:
        raise NoEstimate(
            "text",
            f"names {len(data_sets)} data sets",
            got=" and ".join(data.name for data in data_sets),
            allowed="one, or the number of samples of all",
        )


# `generate 500 tokens` is the length of an answer, or all that is written.
_WRITTEN = (
    r"(?:generat\w*|writ\w*|output\w*|produc\w*) (?:up to |at most |about |around )?"
    r"\d[\d,]*(?:\.\d+)? ?(?:[kmb]|million|billion)?[ -](?:[a-z]+ )?tokens?"
)

# `generate 10k stories of 2,000 words`: the stories are answers.
_WRITTEN_SAMPLES = (
    r"(?:generat\w*|writ(?:e|ing)|produc\w*|creat\w*)"
    r"(?: (?:synthetic|artificial|training) data(?:sets?)?(?: ?:| of| with)?)? (?:about |around )?"
    rf"\d[\d,.]*(?:k|m| thousand| million)? (?:[a-z-]+ ){{0,2}}?(?:{SAMPLES})"
)

_MOST_TOKENS_OF_EACH = 131_072
"""The longest context of usual models (Llama 3.1)."""
_LEAST_OF_ALL = 1_000_000
"""So many tokens are no length of a sample."""


def _tokens_of_each(counts: Mapping[str, float]) -> float | None:
    """The tokens of a sample, where samples and tokens are counted; None: either may be meant.

    `25k examples, 1k tokens`: all samples together have no fewer tokens than samples, so these are
    of each. `10k documents, 40M tokens` are of all.
    """
    samples, tokens = counts.get("samples", 0), counts.get("tokens", 0)
    if not samples or not tokens:
        return None
    each = tokens if tokens < samples else tokens / samples
    is_clear = tokens < samples or tokens >= _LEAST_OF_ALL
    return each if is_clear and each <= _MOST_TOKENS_OF_EACH else None


def _take_sizes(line: TextLine) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, pattern in _SIZES:
        match = line.take(pattern)
        if match is None or name in sizes:
            continue
        sizes[name] = length_of(match)
        line.understand(f"{name.replace('_', ' ')} {sizes[name]}")
    return sizes


def _take_counts(line: TextLine) -> dict[str, float]:
    counts: dict[str, float] = {}
    position = 0
    while (match := re.compile(rf"(?<![\w.-]){NUMBER}").search(line.text, position)) is not None:
        noun, end = _noun_after(line.text, match)
        if noun is None or noun in counts:  # a second number of one noun means something else
            position = match.end()
            continue
        counts[noun] = number_of(match)
        line.text = f"{line.text[: match.start()]} ; {line.text[end:]}"
        position = match.start()
    return counts


def _noun_after(text: str, match: re.Match[str]) -> tuple[str | None, int]:
    # `7B chat model on documents`: after an attached B only a noun that follows at once counts.
    is_attached = match[0][-1:] in "bm" and match[0][-2:-1].isdigit()
    is_size = is_attached and match[0][-1] == "b"
    for name, nouns in _NOUNS:
        between = "" if is_size and name not in ("parameters", "tokens") else _BETWEEN
        found = re.compile(rf"[\s-]*{between}(?:{nouns})(?!\w)").match(text, match.end())
        if found is not None:
            return name, found.end()
    is_large = match[2] in ("b", "bn", "billion", "m", "million", "t")
    model = re.compile(r"[\s-]*(?:[a-z-]+ ){0,3}?(?:models?|llms?|transformers?|networks?)(?!\w)")
    if is_large and (is_attached or model.match(text, match.end()) is not None):
        return "parameters", match.end()
    return None, match.end()


def _unread(line: TextLine) -> tuple[str, ...]:
    """Numbers that are left, each with the word behind it."""
    pattern = rf"(?<![\w./-]){NUMBER}[ -]*(?P<noun>[a-z][a-z-]+)?"
    return tuple(match[0].strip() for match in re.finditer(pattern, line.text) if _is_amount(match))


# Versions and years stand behind such words or before them; they are no amounts.
_NO_NOUNS = frozenset(("on", "with", "and", "for", "in", "to", "at", "by", "of", "using", "from"))


def _is_amount(match: re.Match[str]) -> bool:
    noun = match["noun"]
    return noun is not None and noun not in _NO_NOUNS and noun != "bit"
