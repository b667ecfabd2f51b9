"""British spellings, with the American ones that the project uses, as Prefect and Kubernetes do.

`cancelled` stays: Prefect has a state of this name.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache

BRITISH: Mapping[str, str] = {
    r"aeroplane": "airplane",
    r"aluminium": "aluminum",
    r"artefact": "artifact",
    r"behaviour": "behavior",
    r"catalogue": "catalog",
    r"centre[ds]?": "center",
    r"(?:dis)?colour": "color",
    r"defence": "defense",
    r"(?:dis|un)?favour": "favor",
    r"fulfil(?:s|ment)?(?![a-z])": "fulfill",
    r"grey": "gray",
    r"(?:dis)?honour": "honor",
    r"judgement": "judgment",
    r"acknowledgement": "acknowledgment",
    r"(?:un|mis)?labell(?:ed|ing)": "labeled, labeling",
    r"learnt|burnt|dreamt|spoilt": "learned, burned, dreamed, spoiled",
    r"licence": "license",
    r"manoeuvre": "maneuver",
    r"(?:centi|kilo|milli|micro|nano)?metres?(?![a-z])": "meter",
    r"modell(?:ed|ing|er)": "modeled, modeling",
    r"neighbour": "neighbor",
    r"offence|pretence": "offense, pretense",
    r"practis(?:e|ing)": "practice",
    r"programmes?(?![a-z])": "program",
    r"rumour|savour|vapour|harbour|labour|vigour|endeavour": "-or",
    r"sceptic": "skeptic",
    r"signall(?:ed|ing)": "signaled, signaling",
    r"(?:mis)?spelt": "spelled, misspelled",
    r"total(?:led|ling)": "totaled, totaling",
    r"travell(?:ed|ing|er)": "traveled, traveling",
    r"towards": "toward",
    r"whilst|amongst": "while, among",
    r"(?:ana|cata|para|dia|electro)lys(?:e[ds]?|ing)(?<!analyses)(?![a-z])": "analyze, catalyze",
    r"(?:author|capital|categor|character|central|critic|custom|crystal|emphas|equal|final|formal"
    r"|general|global|ideal|initial|item|legal|linear|local|material|maxim|memor|minim|mobil|modern"
    r"|modular|monet|neutral|normal|optim|organ|parallel|parameter|parametr|penal|polar|popular"
    r"|priorit|quant|random|real|recogn|regular|serial|special|stabil|standard|steril|summar"
    r"|symbol|synchron|token|util|vector|visual)"
    r"is(?:e[drs]?|ers|ing|ations?|able)(?![a-z])": "-ize, -ization",
}
"""A regular expression for how a word begins, in identifiers too, and what to write instead."""

PUBLIC: Mapping[str, str] = {
    r"misspelt-(?:gpu-type|team|queue)": "the codes of warnings of `prefect-gpu check`",
    r'"summarise [\w,]+': "what a user of the job text may write",
}
"""British spellings that stay, because others depend on them, each with what it is."""

_ANY = re.compile("|".join(BRITISH))
_PUBLIC = re.compile("|".join(PUBLIC))
_TOKEN = re.compile(r"[A-Za-z]{4,}")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def british_spellings(text: str) -> Iterator[tuple[int, str]]:
    """Which words of this text are British, by line, and how are they spelled here?"""
    if not any(map(_british_word, set(_TOKEN.findall(text)))):
        return
    for number, line in enumerate(text.splitlines(), 1):
        for token in _TOKEN.findall(_PUBLIC.sub("", line)):
            if word := _british_word(token):
                yield number, f"{word!r}; write: {_american(word)}"


@cache
def _british_word(token: str) -> str | None:
    words = (found.group() for found in _WORD.finditer(token))
    return next((word for word in words if _ANY.match(word.lower())), None)


def _american(word: str) -> str:
    return next(
        american for british, american in BRITISH.items() if re.match(british, word.lower())
    )
