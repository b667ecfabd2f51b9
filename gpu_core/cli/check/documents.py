"""The documents of a file: YAML or JSON, and where each field stands."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_core.adapters.files.yaml_file import parse_yaml_documents
from gpu_core.decisions.model.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of a file.

    Attributes:
        lines: The line of each field, by its dotted path; of JSON they are not known.
        line: Where it begins; None: not known.
    """

    data: Any
    lines: Mapping[str, int]
    line: int | None


def read_documents(text: str, source: str) -> list[Document]:
    """The documents in this text. The items of a Kubernetes List count one by one.

    Raises:
        InvalidInput: It is neither YAML nor JSON; the field has the line and the column.
    """
    return [each for document in _documents(text, source) for each in _items(document)]


def _documents(text: str, source: str) -> list[Document]:
    if text.lstrip().startswith("{"):
        return [Document(data=_json(text, source), lines={}, line=None)]
    return [
        Document(data=found.data, lines=found.lines, line=found.line)
        for found in parse_yaml_documents(text, source)
    ]


def _json(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{source}:{error.lineno}:{error.colno}"
        raise InvalidInput(where, "is not valid JSON", got=error.msg) from None
    except ValueError:
        raise InvalidInput(source, "contains a number with too many digits") from None
    except RecursionError:
        raise InvalidInput(source, "is nested too deeply") from None


def _items(document: Document) -> Iterator[Document]:
    data = document.data
    items = data.get("items") if isinstance(data, dict) else None
    is_object = isinstance(data, dict) and "apiVersion" in data
    if not is_object or not isinstance(items, list) or not str(data.get("kind")).endswith("List"):
        yield document
        return
    for index, item in enumerate(items):
        prefix = f"items.{index}."
        lines = {
            path.removeprefix(prefix): line
            for path, line in document.lines.items()
            if path.startswith(prefix)
        }
        line = document.lines.get(f"items.{index}", document.line)
        yield Document(data=item, lines=lines, line=line)
