"""The selection of the part of the catalog that is shown."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpu_core.decisions.catalog.offerings import Catalog, Offering
from gpu_core.decisions.catalog.product_names import nearest_gpu_types
from gpu_core.decisions.model.errors import InvalidInput, listed, nearest_name
from gpu_core.decisions.model.pydantic_errors import refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Names that are wanted; none of a kind: all."""

    gpu_types: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()


def selected(catalog: Catalog, selection: Selection) -> tuple[Offering, ...]:
    """The offerings that match, by GPU type, then by price for one GPU.

    Raises:
        InvalidInput: The catalog has nothing of a name that is wanted.
        InvalidInputs: Several such names.
    """
    kinds: tuple[tuple[str, tuple[str, ...], Callable[[Catalog, Offering], str]], ...] = (
        ("gpu-type", selection.gpu_types, _gpu_type),
        ("region", selection.regions, lambda _, o: o.key.region),
        ("capacity-type", selection.capacity_types, lambda _, o: o.key.capacity_type),
        ("provider", selection.providers, lambda _, o: o.key.provider),
    )
    offerings = list(catalog.offerings.values())
    errors: list[InvalidInput] = []
    chosen = offerings
    for field, wanted, name_of in kinds:
        known = {name_of(catalog, offering) for offering in offerings}
        errors += _unknown(field, wanted, known)
        chosen = [o for o in chosen if not wanted or name_of(catalog, o) in wanted]
    refuse(errors)
    return tuple(sorted(chosen, key=lambda offering: _order(catalog, offering)))


def _gpu_type(catalog: Catalog, offering: Offering) -> str:
    return catalog.instance_type(offering).gpu_type


def _unknown(field: str, wanted: Iterable[str], known: set[str]) -> list[InvalidInput]:
    return [
        InvalidInput(
            field,
            "is not in the catalog",
            got=name,
            allowed=listed(known, limit=40),
            nearest=_meant(field, name, known),
        )
        for name in wanted
        if name not in known
    ]


def _meant(field: str, name: str, known: set[str]) -> str | tuple[str, ...] | None:
    return nearest_gpu_types(name, known) if field == "gpu-type" else nearest_name(name, known)


def _order(catalog: Catalog, offering: Offering) -> tuple[str, int, str]:
    per_gpu = catalog.micro_usd_per_gpu_hour(offering)
    return (_gpu_type(catalog, offering), per_gpu, str(offering.key))
