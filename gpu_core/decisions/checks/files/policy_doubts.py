"""What can be used in a policy, and is probably not what its author means."""

from collections.abc import Mapping

from gpu_core.decisions.checks.files.findings import FileFinding
from gpu_core.decisions.checks.files.misspelled_names import misspelled_names
from gpu_core.decisions.checks.files.without_effect import settings_without_effect
from gpu_core.decisions.policy.policy import Policy


def doubts_of_policy(
    policy: Policy, lines: Mapping[str, int], place: str | None = None
) -> list[FileFinding]:
    """Warnings of names that are probably misspelled, and of settings that change nothing.

    Args:
        policy: It has been read without errors.
        lines: The line of each field, by its dotted path.
        place: Which of several objects in the file; None: the file has one.
    """
    return [
        *misspelled_names(policy, lines, place),
        *settings_without_effect(policy, lines, place),
    ]
