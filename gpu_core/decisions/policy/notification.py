"""Prefect notification blocks, as sections of the policy name them."""

from collections.abc import Iterable

from gpu_core.decisions.model.errors import InvalidInput


def unusable_blocks(path: str, names: Iterable[str]) -> list[InvalidInput]:
    """The names among these that cannot be those of saved blocks.

    Args:
        path: The section's field path, for the errors.
        names: The values of its key `notify`.
    """
    return [
        InvalidInput(
            f"{path}.notify.{index}",
            "is not a saved block",
            got=name,
            allowed="TYPE/NAME, such as slack-webhook/gpu-budgets",
        )
        for index, name in enumerate(names)
        if len([part for part in name.split("/") if part]) != 2
    ]
