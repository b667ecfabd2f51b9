"""The permitted values of job variables: GPU types, a MIG profile, durations, names, work."""

import re
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field, StringConstraints, WithJsonSchema

from gpu_core.decisions.checkpoints.store_address import parse_store_address
from gpu_core.decisions.model.errors import InvalidInput
from gpu_core.decisions.model.plain_text import checked_text
from gpu_core.decisions.model.pydantic_errors import parsed_by
from gpu_core.decisions.model.units import parse_duration_s, require_plausible
from gpu_core.decisions.requests.requirements.reading.job_request import JobRequest, job_of
from gpu_core.decisions.requests.requirements.reading.text_line import NoEstimate

AUTO = "auto"

_GPU_TYPE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_MOST_GPU_TYPES = 32
# Compute slices, memory, and media extensions (NVIDIA MIG user guide).
_MIG_PROFILE = re.compile(r"[1-7]g\.[1-9][0-9]{0,3}gb(\+me)?")
_MIG_PROFILE_HELP = "compute slices and memory such as '1g.10gb' or '1g.10gb+me'"
_GPU_TYPE_HELP = "'auto', a type such as 'a100-80gb', or a list of types in order of preference"


def parse_gpu_types(value: object, field: str) -> tuple[str, ...]:
    """The GPU types of a value, in order of preference; none for `auto`.

    Raises:
        InvalidInput: The value is neither a type nor a list of different types.
    """
    if value == AUTO:
        return ()
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names:
        raise InvalidInput(field, "is not a GPU type", allowed=_GPU_TYPE_HELP)
    if len(names) > _MOST_GPU_TYPES:
        raise InvalidInput(
            field, f"names {len(names):,} GPU types", allowed=f"at most {_MOST_GPU_TYPES}"
        )
    types = [name.strip().lower() if isinstance(name, str) else "" for name in names]
    if AUTO in types or not all(_GPU_TYPE.fullmatch(name) for name in types):
        raise InvalidInput(field, "is not a list of GPU types", allowed=_GPU_TYPE_HELP)
    if len(set(types)) < len(types):
        raise InvalidInput(field, "contains a duplicate GPU type", allowed=_GPU_TYPE_HELP)
    return tuple(types)


def parse_mig_profile(value: object, field: str) -> str:
    """The name of a MIG profile, in lower case.

    Raises:
        InvalidInput: The value does not have the form of a profile.
    """
    name = value.strip().lower() if isinstance(value, str) else ""
    if not _MIG_PROFILE.fullmatch(name):
        raise InvalidInput(field, "is not a MIG profile", got=value, allowed=_MIG_PROFILE_HELP)
    return name


def parse_interval_s(value: object, field: str) -> int | None:
    """How many seconds is this interval; None: `auto`?

    Raises:
        InvalidInput: The value is neither `auto` nor a duration.
    """
    return None if value == AUTO else parse_duration_s(value, field)


def parse_deadline(value: object, field: str) -> datetime | timedelta:
    """The deadline: a moment as ISO 8601 text, or a duration from the run's submission.

    Raises:
        InvalidInput: The value is neither, or has no time zone.
    """
    if isinstance(value, str) and "-" in value.strip()[1:]:
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            raise InvalidInput(
                field, "is not a deadline", got=value, allowed=_DEADLINE_HELP
            ) from None
        return require_plausible(moment, field)
    try:
        return timedelta(seconds=parse_duration_s(value, field))
    except InvalidInput as error:
        problem = error.problem.replace("a duration", "a deadline")
        raise InvalidInput(
            field, problem, got=value, allowed=_DEADLINE_HELP, nearest=error.nearest
        ) from None


def parse_store_uri(value: object, field: str) -> object:
    """Is this the address of a checkpoint store? It is returned as it is.

    Raises:
        InvalidInput: The value is text that names neither a folder nor a bucket.
    """
    if isinstance(value, str) and value:
        parse_store_address(value, field)
    return value  # the field's own type refuses the rest


_DEADLINE_HELP = "a moment such as '2026-09-01T18:00Z', or a duration such as '6h' from submission"


# Text first: that is the field that Prefect's form shows, and both `90m` and `5400` are durations.
DURATION_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "integer"}]}


def parse_work(value: object, field: str) -> str:
    """Is this a text of which job a run does? It is returned as it is.

    Raises:
        InvalidInput: The value is no text, is too long, or is refused as the description of a job.
    """
    if not isinstance(value, str):
        raise InvalidInput(field, "is not text", got=value, allowed=_WORK_HELP)
    if len(value) > _LONGEST_WORK:
        raise InvalidInput(field, f"has {len(value):,} characters", got=value, allowed=_WORK_HELP)
    try:
        job_of(value, JobRequest())
    except NoEstimate:
        return value  # it ranks no GPU types, and the log of the run says why
    except InvalidInput as error:
        raise InvalidInput(field, error.problem, got=value, allowed=_WORK_HELP) from None
    return value


_LONGEST_WORK = 1000
_WORK_HELP = (
    "words with a model and a method, such as 'fine-tune a 7B model with LoRA', at most "
    f"{_LONGEST_WORK:,} characters"
)

# Names go into labels, pages, tables and two databases; addresses are longer.
LONGEST_NAME = 200
_LONGEST_ADDRESS = 2048

Text = Annotated[str, StringConstraints(min_length=1), checked_text(LONGEST_NAME)]
Address = Annotated[str, StringConstraints(min_length=1), checked_text(_LONGEST_ADDRESS)]
StoreUri = Annotated[Address, parsed_by(parse_store_uri)]
Duration = Annotated[int, parsed_by(parse_duration_s), WithJsonSchema(DURATION_SCHEMA)]
Deadline = Annotated[
    datetime | timedelta, parsed_by(parse_deadline), WithJsonSchema(DURATION_SCHEMA)
]
PositiveDuration = Annotated[
    int, parsed_by(parse_duration_s), Field(ge=1), WithJsonSchema(DURATION_SCHEMA)
]
