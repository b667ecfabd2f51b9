"""Catalogs on disk: the snapshot that comes with the package, refreshed ones, own price sheets."""

import json
from collections.abc import Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from gpu_core.adapters.files.atomic_file import make_folder, replace_file
from gpu_core.adapters.files.text_file import read_json_file
from gpu_core.adapters.files.yaml_file import read_yaml
from gpu_core.decisions.catalog import DEFAULT_CATALOG
from gpu_core.decisions.catalog.offerings import Catalog, combined
from gpu_core.decisions.catalog.sheet import parse_sheet, to_sheet


def load_catalog(path: Path = DEFAULT_CATALOG, own_sheets: Sequence[Path] = ()) -> Catalog:
    """The catalog of known offerings.

    Args:
        path: The refreshed catalog. Where there is none, the snapshot of the package counts.
        own_sheets: The user's own prices. A later sheet replaces what an earlier one says.

    Raises:
        InvalidInput: A file cannot be read or used.
        InvalidInputs: Several fields of a file cannot be used.
    """
    base = load_sheet(path) if _is_there(path) else shipped_catalog()
    return combined((base, *(load_sheet(sheet) for sheet in own_sheets)))


def shipped_catalog() -> Catalog:
    """The snapshot that comes with the package; its prices have their dates."""
    resource = files("gpu_core.adapters.files").joinpath("catalog_aws.json")
    return parse_sheet(json.loads(resource.read_text(encoding="utf-8")), source="catalog_aws.json")


def load_sheet(path: Path) -> Catalog:
    """The catalog in this price sheet, in YAML or JSON.

    Raises:
        InvalidInput: The file cannot be read, or a field cannot be used.
        InvalidInputs: Several fields cannot be used; the message has a line for each.
    """
    if path.suffix == ".json":
        return parse_sheet(read_json_file(path, "price sheet"), source=str(path))
    data, lines = read_yaml(path, what="price sheet")
    return parse_sheet(data, source=str(path), lines=lines)


def save_catalog(path: Path, catalog: Catalog, provider: str, as_of: datetime) -> None:
    """Keep what this provider offers, in one step that no reader can see half of.

    Raises:
        OSError: The disk refused; the file is as it was.
    """
    make_folder(path.parent)
    replace_file(path, to_text(to_sheet(catalog, provider, as_of)).encode())


def to_text(sheet: dict[str, Any]) -> str:
    """The sheet as JSON with a line for each price, so that a change shows as that line."""
    head = {key: value for key, value in sheet.items() if key != "instance_types"}
    types = ",\n".join(
        f"    {json.dumps(name)}: {_type_text(row)}"
        for name, row in sheet["instance_types"].items()
    )
    return f'{json.dumps(head, indent=2)[:-2]},\n  "instance_types": {{\n{types}\n  }}\n}}\n'


def _type_text(row: dict[str, Any]) -> str:
    facts = json.dumps({key: value for key, value in row.items() if key != "prices"})
    prices = ",\n".join(f"      {json.dumps(price)}" for price in row["prices"])
    listed = f"[\n{prices}\n    ]" if prices else "[]"
    return f'{facts[:-1]}, "prices": {listed}}}'


def _is_there(path: Path) -> bool:
    """Is there anything of this name? Reading it says what is wrong with a name that cannot be."""
    try:
        return "\0" in str(path) or path.exists()
    except OSError:
        return True
