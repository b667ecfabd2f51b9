"""From pydantic's errors to ours: every mistake named with its field, as the person wrote it."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from itertools import chain
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.units import count, with_a_unit

ModelT = TypeVar("ModelT", bound=BaseModel)

# How many mistakes one message lists; what is over that is counted.
_MOST_ERRORS = 20

_OUR_ERROR = "gpu_core_invalid_input"
_NO_MAPPING = "is not a mapping"

# pydantic's error type -> what the value is not, and what would be accepted.
_WRONG_TYPES: Mapping[str, tuple[str, str | None]] = {
    "int_type": ("is not a whole number", "a whole number"),
    "bool_type": ("is not true or false", "true or false"),
    "string_type": ("is not text", "text"),
    "dict_type": (_NO_MAPPING, None),
    "model_type": (_NO_MAPPING, None),
    "string_unicode": ("is not text", "text without halves of surrogate pairs"),
    "float_type": ("is not a number", "a number"),
    "list_type": ("is not a list", "a list"),
    "tuple_type": ("is not a list", "a list"),
    "sequence_str": ("is not a list", "a list"),
    "int_from_float": ("is not a whole number", "a whole number"),
    "int_parsing": ("is not a whole number", "a whole number"),
    "int_parsing_size": ("is too large", "a number with fewer digits"),
    "float_parsing": ("is not a number", "a number"),
    "bool_parsing": ("is not true or false", "true or false"),
    "finite_number": ("is not a finite number", "a finite number"),
    "invalid_key": ("is not text", "text as a key"),
}

# These types of pydantic's are about a name, not about its value.
_ABOUT_NAMES = ("extra_forbidden", "missing", "invalid_key")

_NUMBERS = ("a whole number", "a number")
_A_LIST = "a list"
_LISTS = (list, tuple, frozenset, set, Sequence)


class InvalidInputs(InvalidInput):
    """Several mistakes in one input, listed all at once; nothing was changed.

    Args:
        errors: The mistakes, two or more, in the order of the input.
    """

    def __init__(self, errors: Sequence[InvalidInput]) -> None:
        first = errors[0]
        super().__init__(first.field, first.problem, got=first.got, allowed=first.allowed)
        self.errors = tuple(errors)

    @property
    def mistakes(self) -> tuple[tuple[str, ...], ...]:
        shown = tuple(chain.from_iterable(each.mistakes for each in self.errors[:_MOST_ERRORS]))
        more = len(self.errors) - _MOST_ERRORS
        return (*shown, (f"and {count(more, 'more mistake')}",)) if more > 0 else shown


def refuse(errors: Sequence[InvalidInput]) -> None:
    """Raise these mistakes together; none: return.

    Raises:
        InvalidInput: There is one.
        InvalidInputs: There are several.
    """
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise InvalidInputs(errors)


def mistakes_in(parse: Callable[[], object]) -> list[InvalidInput]:
    """The mistakes that this reader finds. Empty: none."""
    try:
        parse()
    except InvalidInputs as error:
        return list(error.errors)
    except InvalidInput as error:
        return [error]
    return []


def parsed_by(parse: Callable[[object, str], object]) -> BeforeValidator:
    """A validator of a pydantic field: one of our parsers, whose error stays whole.

    Args:
        parse: Takes the value and the field's name, raises `InvalidInput`.
    """

    def validate(value: object) -> object:
        try:
            return parse(value, "value")
        except InvalidInput as error:
            raise PydanticCustomError(_OUR_ERROR, "invalid", {"error": error}) from None

    return BeforeValidator(validate)


def validated(
    model: type[ModelT],
    data: object,
    source: str,
    lines: Mapping[str, int] | None,
    contradictions: Callable[[ModelT, Collection[str]], Sequence[InvalidInput]],
) -> ModelT:
    """The value of this model that a file's data describes.

    Args:
        data: Plain Python data, as a YAML or JSON reader gives it.
        source: Where it comes from, for the errors: a file's path.
        lines: The line of each dotted field path in that file, for the errors.
        contradictions: What is wrong with fields that are each valid alone, without what the named
            sections would be needed for: they have mistakes of their own.

    Raises:
        InvalidInput: One field cannot be used.
        InvalidInputs: Several cannot; the message has a line for each.
    """
    try:
        value = model.model_validate(data)
    except ValidationError as error:
        errors = input_errors(error, model)
        errors += _further(model, data, error, contradictions)
        refuse(_located(errors, source, lines or {}))
        raise
    refuse(_located(contradictions(value, ()), source, lines or {}))
    return value


def _located(
    errors: Sequence[InvalidInput], source: str, lines: Mapping[str, int]
) -> list[InvalidInput]:
    """The errors in the order of their lines; those without a line come first."""
    in_order = sorted(errors, key=lambda error: line_of(error.field, lines) or 0)
    return [located(error, source, lines) for error in in_order]


def first_mistake_refused(
    validate: Callable[[], ModelT], model: type[ModelT], source: str
) -> ModelT:
    """The value that `validate` makes of one line or small file.

    Raises:
        InvalidInput: It cannot be used; its first mistake, with the source.
    """
    try:
        return validate()
    except ValidationError as error:
        raise located(input_errors(error, model)[0], source, {}) from None


def _further(
    model: type[ModelT],
    data: object,
    error: ValidationError,
    contradictions: Callable[[ModelT, Collection[str]], Sequence[InvalidInput]],
) -> Sequence[InvalidInput]:
    """The mistakes in the sections that have none of the first kind.

    All mistakes are listed at once, so that one correction is enough.
    """
    damaged = {str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}
    if not isinstance(data, Mapping) or not damaged:
        return ()
    try:
        rest = model.model_validate({k: v for k, v in data.items() if k not in damaged})
    except ValidationError:
        return ()  # a section that may not be missing is damaged
    return contradictions(rest, damaged)


def input_errors(error: ValidationError, model: type[BaseModel]) -> list[InvalidInput]:
    """The mistakes in a person's input that this error reports.

    Args:
        error: What `model.model_validate` raised.
        model: The model of the whole input; its fields are the known names.
    """
    return [_translate(detail, model) for detail in error.errors(include_url=False)]


def located(error: InvalidInput, source: str, lines: Mapping[str, int]) -> InvalidInput:
    """The same error with the place of its field in a file."""
    line = line_of(error.field, lines)
    where = source if line is None else f"{source}:{line}"
    error.field = f"{where}: {error.field}" if error.field else where
    return error


def line_of(path: str, lines: Mapping[str, int]) -> int | None:
    """The line of this field, or of the nearest section around it that is in the file."""
    while path:
        if path in lines:
            return lines[path]
        path = path.rpartition(".")[0]
    return None


def known_names(model: type[BaseModel]) -> list[str]:
    """The names that a person may write for this model's fields."""
    return [info.alias or name for name, info in model.model_fields.items()]


def required_keys(model: type[BaseModel]) -> set[tuple[str]]:
    """The places of the keys at the top that may not be missing."""
    return {(info.alias or n,) for n, info in model.model_fields.items() if info.is_required()}


def unknown_name(path: str, name: str, known: Sequence[str]) -> InvalidInput:
    """The error for a name that means nothing, with the one that was probably meant."""
    return InvalidInput(
        path,
        "is not a known name",
        allowed=listed(known, limit=40),
        nearest=nearest_name(name, known),
    )


def _translate(detail: ErrorDetails, model: type[BaseModel]) -> InvalidInput:
    error = _error_of(detail, model)
    if detail["input"] is None and not detail["loc"]:
        error.problem = "is empty"
    if detail["input"] is None and detail["loc"] and detail["type"] not in _ABOUT_NAMES:
        # `key:` in YAML. There is no value to show, so the message says that.
        error.problem = "has no value"
        is_needed = detail["loc"] in required_keys(model)
        error.remedy = "add one" if is_needed else "add one or remove it"
    return error


def _error_of(detail: ErrorDetails, model: type[BaseModel]) -> InvalidInput:
    location = tuple(part for part in detail["loc"] if part != "[key]")
    path = ".".join(str(part) for part in location)
    got = detail["input"]
    context = detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden":
            known = known_names(_model_at(model, location[:-1]))
            return unknown_name(path, str(location[-1]), known)
        case "missing":
            return _missing(path, model, location)
        case "literal_error" | "enum":
            return _not_a_choice(path, got, str(context["expected"]))
        case "is_instance_of":
            return _other_type(path, got, model, location)
        case "less_than":
            allowed = _bounds(model, location) or f"under {context['lt']:g}{_unit(model, location)}"
            return InvalidInput(path, "is too large", got=got, allowed=allowed)
        case "too_long":
            allowed = f"{context['max_length']} at most"
            return InvalidInput(path, "has too many items", allowed=allowed)
        case "too_short":
            return InvalidInput(
                path, "has too few items", allowed=f"{context['min_length']} or more"
            )
        case "greater_than_equal":
            allowed = _bounds(model, location) or f"{context['ge']}{_unit(model, location)} or more"
            remedy = with_a_unit(got) if _unit(model, location) else None
            return InvalidInput(path, "is too small", got=got, allowed=allowed, remedy=remedy)
        case "greater_than":
            allowed = _bounds(model, location) or f"over {context['gt']:g}{_unit(model, location)}"
            return InvalidInput(path, "is too small", got=got, allowed=allowed)
        case "less_than_equal":
            most = f"at most {context['le']:,}{_unit(model, location)}"
            allowed = _bounds(model, location) or most
            return InvalidInput(path, "is too large", got=got, allowed=allowed)
        case "string_pattern_mismatch":
            allowed = f"text of the form {context['pattern']}"
            return InvalidInput(path, "has a form that is not allowed", got=got, allowed=allowed)
        case "string_too_short":
            allowed = "text of one character or more"
            return InvalidInput(path, "is empty", got=got, allowed=allowed)
        case kind if kind == _OUR_ERROR:
            found: InvalidInput = context["error"].at(path)
            found.got = got
            return found
        case kind:
            problem, accepted = _WRONG_TYPES.get(kind, ("cannot be used", None))
            if problem is _NO_MAPPING:
                accepted = _with_example(
                    _form_of_mapping(_model_at(model, location)), model, location
                )
            if accepted in _NUMBERS:
                accepted = _with_example(accepted + _range_of(model, location), model, location)
            if accepted == _A_LIST:
                accepted = _with_example(_form_of_list(_model_at(model, location)), model, location)
            remedy = _unquote(kind, got) or _in_brackets(accepted, got)
            return InvalidInput(path, problem, got=got, allowed=accepted, remedy=remedy)


def _missing(path: str, model: type[BaseModel], location: Sequence[Any]) -> InvalidInput:
    """The error for a required key, with the values that it takes and the section to add it to."""
    section = path.rpartition(".")[0]
    return InvalidInput(
        path,
        "is missing",
        allowed=_form_of_value(model, location),
        remedy=f"add {location[-1]} to {section or 'the top level'}",
    )


def _form_of_value(model: type[BaseModel], location: Sequence[Any]) -> str | None:
    """The values that a field takes, with an example; None where its type does not say."""
    annotation: Any = _model_at(model, location)
    plain = get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation
    if get_origin(plain) is Literal:
        return ", ".join(str(choice) for choice in get_args(plain))
    if isinstance(plain, type) and issubclass(plain, Enum):
        return ", ".join(str(member.value) for member in plain)
    words = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
    if plain in words:
        return _with_example(words[plain] + _range_of(model, location), model, location)
    if (isinstance(plain, type) and issubclass(plain, BaseModel)) or get_origin(plain) is dict:
        return _with_example(_form_of_mapping(plain), model, location)
    if get_origin(plain) in _LISTS:
        return _with_example(_form_of_list(plain), model, location)
    example = _example_of(model, location)
    return None if example is None else f"such as {_flow_style(example)}"


def _with_example(form: str, model: type[BaseModel], location: Sequence[Any]) -> str:
    example = _example_of(model, location)
    return form if example is None else f"{form}, such as {_flow_style(example)}"


def _in_brackets(accepted: str | None, got: object) -> str | None:
    """The remedy for one name in place of a list of names."""
    if accepted is None or not accepted.startswith(f"{_A_LIST} of ") or not isinstance(got, str):
        return None
    return f"write [{got}]" if re.fullmatch(r"[\w.-]{1,60}", got) else None


def _form_of_list(annotation: Any) -> str:
    """The items of a list in words: sections with their keys, choices or text."""
    item = _without_none(next(iter(get_args(annotation)), str))
    item = get_args(item)[0] if hasattr(item, "__metadata__") else item
    if isinstance(item, type) and issubclass(item, BaseModel):
        return f"{_A_LIST}, each item with the keys {listed(known_names(item))}"
    if isinstance(item, type) and issubclass(item, Enum):
        return f"{_A_LIST} of {listed(str(member.value) for member in item)}"
    if get_origin(item) is Literal:
        return f"{_A_LIST} of {listed(str(choice) for choice in get_args(item))}"
    return f"{_A_LIST} of text" if item is str else _A_LIST


def _bounds(model: type[BaseModel], location: Sequence[Any]) -> str | None:
    """Both bounds of a number's field, `1 to 64`; None where it lacks one of them."""
    least, most = _limits(model, location)
    unit = _unit(model, location)
    if least is None or most is None:
        return None
    return f"{least} to {most:,}{unit}"


def _unit(model: type[BaseModel], location: Sequence[Any]) -> str:
    """The unit of a field's bounds: a person writes `1m` where they are in seconds."""
    section = _model_at(model, location[:-1]) if location else None
    if not (isinstance(section, type) and issubclass(section, BaseModel)):
        return ""
    names = (name for name, info in section.model_fields.items() if info.alias == location[-1])
    return " s" if any(name.endswith("_s") for name in names) else ""


def _form_of_mapping(annotation: Any) -> str:
    """The contents of a mapping: the keys of a section, or user-defined names with values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"the keys {listed(known_names(annotation))}"
    value: Any = get_args(annotation)[-1]
    plain = next(iter(get_args(value)), value)
    if isinstance(value, type) and issubclass(value, BaseModel):
        return f"names, each with the keys {listed(known_names(value))}"
    if plain in (int, float, Fraction):
        return "names, each with a number"
    return "names, each with text" if plain is str else "names with values"


def _example_of(model: type[BaseModel], location: Sequence[Any]) -> object:
    """The example of this value in the field's declaration; None if it shows none."""
    for end in range(len(location), 0, -1):
        info = _field_at(model, location[:end])
        if info is None:
            continue
        found: Any = (info.examples or (None,))[0]
        for _ in location[end:]:  # below a name of a person's own
            found = next(iter(found.values()), None) if isinstance(found, Mapping) else None
        return found
    return None


def _flow_style(value: object) -> str:
    """A value as YAML has it on one line."""
    if not isinstance(value, Mapping):
        return str(value)
    return f"{{{', '.join(f'{key}: {_flow_style(each)}' for key, each in value.items())}}}"


def _field_at(model: type[BaseModel], location: Sequence[Any]) -> FieldInfo | None:
    """The declaration of a field; None: this is an item of a list or a value of a mapping."""
    try:
        fields = _model_at(model, location[:-1]).model_fields.items()
        return next(info for name, info in fields if location[-1] in (name, info.alias))
    except (AttributeError, StopIteration, IndexError):
        return None


def _range_of(model: type[BaseModel], location: Sequence[Any]) -> str:
    """The bounds of a number's field in words, ` from 1 to 64`; empty where it has none."""
    least, most = _limits(model, location)
    if least is None:
        return ""
    if most is not None:
        return f" from {least} to {most:,}"
    return f" {least}" if least.startswith("over") else f", {least} or more"


def _limits(model: type[BaseModel], location: Sequence[Any]) -> tuple[str | None, float | None]:
    """The least value of a number's field in words, and the most; None where it has none."""
    info = _field_at(model, location)
    if info is None:
        return None, None
    inside = (getattr(part, "__metadata__", ()) for part in get_args(info.annotation))
    of_members = (each for metadata in inside for each in metadata)
    found = [*info.metadata, *chain.from_iterable(map(_constraints, of_members))]
    least = [(each.ge, f"{each.ge:,}") for each in found if getattr(each, "ge", None) is not None]
    over = [
        (each.gt, f"over {each.gt:g}") for each in found if getattr(each, "gt", None) is not None
    ]
    most = [each.le for each in found if getattr(each, "le", None) is not None]
    # A type has bounds and so may its field: the narrower one holds.
    return max(least + over, default=(0, None))[1], min(most, default=None)


def _constraints(metadata: object) -> Sequence[Any]:
    # A `Field(...)` inside a union keeps its constraints in a list of its own.
    return metadata.metadata if isinstance(metadata, FieldInfo) else [metadata]


def _not_a_choice(path: str, got: object, expected: str) -> InvalidInput:
    choices = re.findall(r"'([^']*)'", expected)
    return InvalidInput(
        path,
        "is not one of the choices",
        got=got,
        allowed=", ".join(choices) or expected,
        nearest=nearest_name(got, choices) if isinstance(got, str) else None,
    )


def _other_type(
    path: str, got: object, model: type[BaseModel], location: Sequence[Any]
) -> InvalidInput:
    wanted: Any = _model_at(model, location)
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return _not_a_choice(path, got, ", ".join(repr(str(member.value)) for member in wanted))
    allowed = _with_example(_form_of_list(wanted), model, location)
    remedy = _in_brackets(allowed, got)
    return InvalidInput(path, "is not a list", got=got, allowed=allowed, remedy=remedy)


def _unquote(kind: str, got: object) -> str | None:
    # The commonest mistake in job variables: a number that arrived as text.
    if kind == "int_type" and isinstance(got, str) and re.fullmatch(r"\s*\d{1,18}\s*", got):
        return f"write {got.strip()} without quotes"
    return None


def _model_at(model: type[BaseModel], location: Sequence[Any]) -> type[BaseModel]:
    annotation: Any = model
    for part in location:
        annotation = _without_none(_annotation_of(annotation, part))
    return cast("type[BaseModel]", annotation)


def _annotation_of(annotation: Any, part: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields.items()
        return next(info.annotation for name, info in fields if part in (name, info.alias))
    # A mapping's value by its key, or a list's item by its place.
    return next(a for a in reversed(annotation.__args__) if a is not Ellipsis)


def _without_none(annotation: Any) -> Any:
    # Optional sections: the one model among the members of the union.
    if type(None) in get_args(annotation):
        return next(member for member in get_args(annotation) if member is not type(None))
    return annotation
