"""The question that a text asks, and the time that it is about."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from gpu_core.decisions.costs.usage.usage_cost import Window
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.optimization.questions.questions import QUESTIONS, Question

_DEFAULT_DAYS = 7
_MOST_DAYS = 366
_NEAREST = 3
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_PERIOD = re.compile(
    rf"\b(?:(?P<iso>\d{{4}}-\d{{2}}-\d{{2}})|(?:(?:in |over )?(?:the )?(?:last|past) )"
    rf"(?P<days>\d{{1,9}}) days?|(?P<named>today|yesterday|(?:this|last) (?:week|month)"
    rf"|(?:on |last )?(?:{'|'.join(_WEEKDAYS)})))\b",
    re.IGNORECASE,
)

_FILLER_TEXT = (
    "a all an and are at by did do does each for from have how i in is it me most much my of on "
    "our out per show that the their them there they to us was we were what which with"
)
_FILLERS = frozenset(_FILLER_TEXT.split())
"""Words without a meaning of their own here."""
_SAME = {
    "deployment": "workload", "flow": "workload", "job": "workload", "costly": "expensive",
    "costliest": "expensive", "dearest": "expensive", "priciest": "expensive",
    "spend": "cost", "spent": "cost", "spending": "cost", "gpus": "gpu",
    "utilization": "utilization",
    "failed": "failure", "fail": "failure", "failing": "failure", "wasted": "waste",
    "longest": "long", "largest": "expensive", "instance": "node", "machine": "node",
}  # fmt: skip
"""Words with the same meaning."""
_SAME_PHRASES = (
    (re.compile(r"\bgpu hours?\b"), "gpu-hours"),
    # Without "most", which is left out, it would ask for the cost.
    (re.compile(r"\b(?:costs?|spends?|spent) (?:us |me )?(?:the )?most\b"), "expensive"),
)
"""Words that mean something else together."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that is known, and the UTC time that it is about."""

    question: Question
    window: Window


def parse_question(text: str, now: datetime) -> Asked:
    """The known question that a text asks.

    Args:
        text: Such as `most expensive workloads this week`; without a time: the last 7 whole days.
        now: The moment of the question.

    Raises:
        InvalidInput: It is none of the known ones, or its time cannot be used.
    """
    found = _PERIOD.search(text)
    today = now.astimezone(UTC).date()
    window = _of_days(today - timedelta(days=_DEFAULT_DAYS), today)
    if found is not None:
        window = _window(found, today)
        text = f"{text[: found.start()]} {text[found.end() :]}"
    _refuse_number(text)
    asked = _words(text)
    for question in QUESTIONS:
        if any(asked == _words(known) for known in (question.text, *question.also)):
            return Asked(question, window)
    nearest = [f"'{question.text}'" for question in nearest_questions(text)]
    raise InvalidInput(
        "question",
        "is not one of the known questions",
        got=" ".join(text.split()),
        allowed=f"such as {', '.join(nearest)}",
        remedy="for all questions, see docs/questions.md",
    )


def _refuse_number(text: str) -> None:
    """No question has a number: it is a time that was not read, or a part of what is asked for."""
    number = re.search(r"\S*\d\S*", text)
    if number is not None:
        raise InvalidInput(
            "question",
            "contains an unsupported number",
            got=number[0],
            allowed="one time, such as 'last 14 days', 'last week' or '2026-11-24'",
            remedy="leave out what only selects, such as a GPU type: the answer has each",
        )


def nearest_questions(text: str) -> list[Question]:
    """The known questions that are most like this text."""
    asked = _words(text)
    ranked = sorted(
        QUESTIONS,
        key=lambda question: (
            -max(_likeness(asked, _words(known)) for known in (question.text, *question.also))
        ),
    )
    return ranked[:_NEAREST]


def _likeness(words: frozenset[str], known: frozenset[str]) -> float:
    """The part of all words that both have (Jaccard's coefficient)."""
    return len(words & known) / len(words | known) if words | known else 0.0


def _words(text: str) -> frozenset[str]:
    """The words of the question, without fillers and endings."""
    return frozenset(_stems(text)) or frozenset({""})


def _stems(text: str) -> Iterator[str]:
    text = " ".join(text.lower().split())
    for phrase, same in _SAME_PHRASES:
        text = phrase.sub(same, text)
    for word in re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", text):
        if word in _FILLERS:
            continue
        stem = word if word.endswith("ss") or len(word) < 4 else word.removesuffix("s")
        yield _SAME.get(word, _SAME.get(stem, stem))


def _window(found: re.Match[str], today: date) -> Window:
    if found["iso"]:
        return _iso(found["iso"], today)
    if found["days"]:
        days = int(found["days"])
        if not 1 <= days <= _MOST_DAYS:
            raise InvalidInput(
                "question",
                "specifies an invalid number of days",
                got=days,
                allowed=f"1 to {_MOST_DAYS}",
            )
        return _of_days(today - timedelta(days=days), today)
    return _named(found["named"].lower(), today)


def _iso(text: str, today: date) -> Window:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise InvalidInput("question", "contains an invalid date", got=text) from None
    if day > today:
        raise InvalidInput(
            "question",
            "must not refer to a future date",
            got=text,
            allowed=f"up to {today.isoformat()}",
        )
    return Window.of_day(day)


def _named(name: str, today: date) -> Window:
    tomorrow = today + timedelta(days=1)
    monday, first = today - timedelta(days=today.weekday()), today.replace(day=1)
    known = {
        "today": (today, tomorrow),
        "yesterday": (today - timedelta(days=1), today),
        "this week": (monday, tomorrow),
        "last week": (monday - timedelta(days=7), monday),
        "this month": (first, tomorrow),
        "last month": ((first - timedelta(days=1)).replace(day=1), first),
    }
    if name in known:
        return _of_days(*known[name])
    weekday = _WEEKDAYS.index(name.split()[-1])
    back = (today.weekday() - weekday) % 7 or 7  # the last whole one
    return Window.of_day(today - timedelta(days=back))


def _of_days(first: date, end: date) -> Window:
    return Window(datetime.combine(first, time(), UTC), datetime.combine(end, time(), UTC))
