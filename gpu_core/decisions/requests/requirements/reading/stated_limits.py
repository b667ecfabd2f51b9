"""GPUs, time and money that a text states: constraints, never the amount of work."""

import re
from dataclasses import dataclass

from gpu_core.decisions.catalog.gpu_types import GPU_TYPES
from gpu_core.decisions.model.errors import listed
from gpu_core.decisions.model.units import SECONDS_PER_HOUR, format_duration, format_usd, micro_usd
from gpu_core.decisions.requests.requirements.reading.text_line import NoEstimate, TextLine

MOST_GPUS = 4096
"""More is a typing error: the catalog has no such cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedLimits:
    """The limits of the run in a text. Empty and None: not stated."""

    gpu_types: tuple[str, ...] = ()
    gpus: int | None = None
    """Over all nodes."""
    nodes: int | None = None
    within_s: int | None = None
    budget_micro_usd: int | None = None


# Products that a text may name, with or without a row in GPU_TYPES. Others are not GPU names.
_PRODUCTS = (
    r"(?:geforce )?(?:rtx|gtx) ?\d{4}(?: ?ti)?|rtx ?a?\d{4}|gb200|gh200|mi\d{3}x?"
    r"|tpus?(?: ?v\d\w*)?"
    r"|h100|h200|h20|h800|b200|b300|a100|a800|a10g|a10|a16|a30|a40|a2|l40s|l40|l20|l4|t4g|t4|v100"
    r"|p100|p40|p4|k80"
)
_GPU = rf"(?:nvidia[ -])?(?:tesla[ -])?(?P<name>{_PRODUCTS})s?"
_MEMORY = r"(?:[ -]*\(?(?P<gb>\d+) ?gi?b?\b\)?)?(?:[ -](?:sxm\d?|pcie|nvl))?"
_COUNT = r"(?:(?P<count>1 single|\d[\d,]*|single|a|an) ?x? ?)?"
_GPU_MENTION = rf"{_COUNT}{_GPU}{_MEMORY}(?: gpus?| graphics cards?)?(?: ?x ?(?P<after>\d+))?"
_SIZED_GPU = (
    r"(?:(?P<count>1 single|\d{1,4}(?=[x ] ?(?:x |at least )?\d)|single|an?) ?x? ?)?"
    r"(?P<least>(?:at least|>=?|≥|min(?:imum)?(?: of)?) ?)?"
    r"(?:(?P<gb>\d{1,3})[ -]?gi?b(?P<more>\+| or more)?(?: of)?(?: (?:nvidia|v?ram))?[ -]"
    r"(?:gpus?|graphics cards?|cards?)"
    r"|(?P<vram>\d{1,3})[ -]?gi?b(?: of)? (?:vram|gpu (?:memory|ram)))"
)
_NOT = r"(?:not|no|without|except|excluding|avoid|never)"
_TIMES = {"m": 60, "h": SECONDS_PER_HOUR, "d": 86_400, "w": 7 * 86_400}


def take_limits(line: TextLine) -> StatedLimits:
    """The GPUs, time and money that the line states. What is read is taken from the line.

    Raises:
        NoEstimate: It names a GPU that is not known, or a number of GPUs that cannot be.
    """
    types, gpus = _take_gpus(line)
    nodes = _take_nodes(line)
    if gpus is not None and nodes is not None and _says_each(line):
        gpus *= nodes
    elif gpus is not None and nodes is not None and nodes > 1:
        raise NoEstimate(
            "text",
            "says neither GPUs of each node nor of all",
            got=f"{gpus} GPUs, {nodes} nodes",
            allowed="such as '2 nodes with 8 GPUs each', or the number of GPUs alone",
        )
    within_s, budget = _take_time(line), _take_budget(line)
    _refuse_rest(line)
    return StatedLimits(
        gpu_types=types, gpus=gpus, nodes=nodes, within_s=within_s, budget_micro_usd=budget
    )


def _take_gpus(line: TextLine) -> tuple[tuple[str, ...], int | None]:
    if line.has(rf"{_NOT} (?:(?:a|an|any|on|with|using|the) )*(?:{_PRODUCTS})s?"):
        raise NoEstimate("text", "excludes a GPU", remedy="name the GPUs that may be used instead")
    match = line.take(_GPU_MENTION)
    sized = line.take(_SIZED_GPU) if match is None else None
    if sized is not None:
        return _sized_gpu(sized, line)
    if match is None:
        counted = line.take(
            r"(?<![-/])(?P<count>1 single|\d[\d,]*|single|a|an) ?x? ?(?:nvidia )?gpus?"
        )
        count = None if counted is None else _gpu_count(counted)
        if count is not None:
            line.understand(f"{count} GPU{'s' if count != 1 else ''}")
        return (), count
    types, count = _types_of(match["name"], match["gb"]), _gpu_count(match)
    while (other := line.take(_GPU_MENTION)) is not None:
        if _gpu_count(other) not in (None, 1):
            raise NoEstimate("text", "names several numbers of GPUs", got=other[0], allowed="one")
        types = tuple(dict.fromkeys((*types, *_types_of(other["name"], other["gb"]))))
    line.understand(f"{'' if count is None else f'{count} × '}{' or '.join(types)}")
    return types, count


def _sized_gpu(match: re.Match[str], line: TextLine) -> tuple[tuple[str, ...], int | None]:
    """`a single 48 GB GPU`: the types with so much memory, or with no less where it says so."""
    gib = int(match["gb"] or match["vram"])
    is_least = match["least"] is not None or match["more"] is not None
    types = tuple(
        name
        for name, kind in sorted(GPU_TYPES.items())
        if (kind.memory_gib >= gib if is_least else kind.memory_gib == gib)
    )
    if not types:
        sizes = sorted({kind.memory_gib for kind in GPU_TYPES.values()})
        raise NoEstimate(
            "text",
            "names a memory that no GPU type has",
            got=match[0].strip(),
            allowed=f"{', '.join(map(str, sizes))} GB",
            remedy="say 'at least' before it, or name a GPU type",
        )
    gpus = _gpu_count(match)
    number = "" if gpus is None else f"{gpus} × "
    bound = "at least " if is_least else ""
    line.understand(f"{number}GPU with {bound}{gib} GB ({' or '.join(types)})")
    return types, gpus


def _gpu_count(match: re.Match[str]) -> int | None:
    text = match["count"] or match.groupdict().get("after")
    if text is None:
        return None
    if not text[0].isdigit():
        return 1
    count = int(text.replace(",", "").split()[0])
    if not 1 <= count <= MOST_GPUS:
        raise NoEstimate(
            "text",
            "asks for a number of GPUs that cannot be",
            got=count,
            allowed=f"1 to {MOST_GPUS}",
        )
    return count


def _types_of(name: str, gb: str | None) -> tuple[str, ...]:
    """The known types of a product: `a100` is two of them, `a100 80gb` one."""
    family = [t for t in sorted(GPU_TYPES) if t.split("-")[0] == name]
    sized = [t for t in family if gb is None or GPU_TYPES[t].memory_gib == int(gb)]
    if sized:
        return tuple(sized)
    got = name if gb is None else f"{name} {gb}gb"
    raise NoEstimate(
        "text",
        "names a GPU without known figures",
        got=got,
        allowed=listed(family or GPU_TYPES, limit=20),
        remedy="leave the GPU out, or name one of these",
    )


def _take_nodes(line: TextLine) -> int | None:
    match = line.take(r"(?P<count>\d{1,4}) ?(?:nodes?|machines?|servers?|instances?)")
    if match is None or int(match["count"]) < 1:
        return None
    line.understand(f"{match['count']} node{'s' if match['count'] != '1' else ''}")
    return int(match["count"])


def _says_each(line: TextLine) -> bool:
    # `2 nodes of 8 H100`, `2 nodes x 8 H100`: what was taken has left its marks on both sides.
    is_each = line.take(r"(?:each|per node|on each)") is not None
    return is_each or re.search(r"; +(?:of|x) +;", line.text) is not None


# From the beginning of a number and never back into it: a text may be one long number.
_REST = (
    r"[$€£] ?[\d.,]*\w*|(?<![\d.,])[\d.,]++ ?(?:usd|dollars?|euros?|eur)\b"
    r"|(?<![\d./-])[./-]*+(?P<gpus>\d[\d./-]*+ ?x? ?gpus?\b)"
)


def _refuse_rest(line: TextLine) -> None:
    """Refuses text that speaks of money or of a number of GPUs and was not understood."""
    rest = re.search(_REST, line.text)
    if rest is not None:
        before = line.text[: rest.start("gpus")] if rest["gpus"] else ""
        # What stands before a comma belongs to the number.
        thousands = before[len(before.rstrip("0123456789.,")) :]
        raise NoEstimate(
            "text",
            "has a budget or a number of GPUs that is not understood",
            got=f"{thousands}{rest['gpus'] or rest[0]}".strip(),
            allowed="such as 'under $50' or 'on 4 GPUs'",
        )


def _take_time(line: TextLine) -> int | None:
    match = line.take(
        r"(?:in|within|under|in under|in less than|less than|at most|max(?:imum)?)"
        r" (?P<number>\d+(?:\.\d+)?|an?(?= )) ?"
        r"(?P<unit>minutes?|mins?|hours?|hrs?|h|days?|d|weeks?)"
        r"(?! of)"
    )
    if match is None:
        return None
    number = 1.0 if match["number"][0] == "a" else float(match["number"])
    seconds = round(number * _TIMES[match["unit"][0]])
    line.understand(f"a time limit of {format_duration(seconds)}")
    return seconds


_MONEY = r"(\d[\d,]{0,11}(?:\.\d+)?)(?: ?(k|thousand|m|million)(?!\w))?"
_SCALES = {"k": 1e3, "t": 1e3, "m": 1e6}


def _take_budget(line: TextLine) -> int | None:
    match = line.take(
        r"(?:(?:for|under|below|within|at most|less than|max(?:imum)?|(?:on a )?budget(?: of)?) )*"
        rf"(?:(?:usd ?|\$ ?){_MONEY}(?![\d.,]*\w)"
        r"(?! ?(?:k|m|thousand|million|billion|per|an?)(?!\w))(?! ?/)"
        rf"|{_MONEY} ?(?:\$|(?:us )?dollars?|usd|bucks)"
        r"(?! ?(?:per|an?|each)(?!\w))(?! ?/))(?: budget)?"
    )
    if match is None:
        return None
    number, scale = (match[1], match[2]) if match[1] else (match[3], match[4])
    if re.search(r",\d{1,2}(?!\d|,\d)", number) is not None:
        raise NoEstimate(
            "text",
            "has a budget in a form that is not read",
            got=match[0],
            allowed="a point for cents, such as $12.50",
        )
    usd = float(number.replace(",", "")) * (_SCALES[scale[0]] if scale else 1)
    budget = micro_usd(usd, "text")
    line.understand(f"a budget of {format_usd(budget)}")
    return budget
