"""Words that the project no longer uses toward people, and what it says instead.

The one place for them: add a row, and `test_retired_words.py` names every text to reword.
"""

import re
from collections.abc import Collection, Iterator, Mapping

IN_NOTES: Mapping[str, str] = {
    r"whoever": "the subject: the user, an administrator, a worker",
    r"(?:no|some|any|every)body": "no run, a user, another process, all users",
    r"told|tells?|telling": "notified, reported, shown, recorded, published, distinguished",
    r"\d+(?= %(?!\w))": "80%, without a space, as Kubernetes' documentation has it",
}
"""What comments, docstrings, names, the ids of test cases and DESIGN.md do without, too."""

RETIRED: Mapping[str, str] = {
    **IN_NOTES,
    r"go(?:es)? on|went on|going on": "continues, resumes, keeps its GPUs",
    r"g[ia]ves? back|given back|giving back": "releases",
    r"mend(?:s|ed)?": "fix",
    r"is to (?:hold|end|start|run|stop)": "must",
    r"so many": "the number",
    r"next look|looked at|look(?:s|ed)? after": "poll, read, check, reconcile",
    r"dear(?:er|est)?": "expensive",
    r"lately": "recently",
    r"(?:back|first|waits?|place|time) in line": "in the queue",
    r"begun|began": "started",
    r"in vain": "without effect",
    r"wish(?:es|ed)?": "constraints, wanted",
    r"(?:is|was|were|been) away": "is unavailable, is down",
    r"stands? in": "is in",
    r"stands? by": "is on standby",
    r"(?:is|are) said once": "is reported once",
    r"nonsense": "implausible",
    r"takes? back": "removes, reverts",
    r"waiting for victims": "waiting for GPUs, with the runs that release them",
    r"interruptions allowed": "infrastructure interruptions tolerated",
}
"""A regular expression for whole words in any case, and what to say instead."""

_PATTERNS = {word: re.compile(rf"\b(?:{word})\b", re.IGNORECASE) for word in RETIRED}
_CONTEXT = 30


def retired_words(text: str, words: Collection[str] = RETIRED) -> Iterator[str]:
    """Which retired words has this text, around them what, and what could it say instead?

    Args:
        text: Line breaks count as spaces.
        words: Those of `RETIRED` that count.
    """
    flat = " ".join(text.split())
    for word in words:
        for found in _PATTERNS[word].finditer(flat):
            around = flat[max(0, found.start() - _CONTEXT) : found.end() + _CONTEXT]
            yield f"{found.group()!r} in '... {around} ...'; say: {RETIRED[word]}"
