"""The checkpoints and unfinished uploads of a run that are deleted, and their order."""

from collections.abc import Collection

from gpu_core.decisions.checkpoints.object_names import (
    CheckpointId,
    claim_name,
    claims,
    committed,
    parsed_names,
)


def deletable(
    names: Collection[str], keep: int, damaged: Collection[CheckpointId] = ()
) -> tuple[str, ...]:
    """The names that may be deleted, in the order in which they have to be.

    The newest `keep` complete checkpoints stay, and so does everything newer than the newest of
    them: another attempt may be writing it. Older checkpoints, what saves that were cut short
    have left, and claims before the newest go. A manifest goes before its payload, so that a
    deletion that is cut short never leaves a checkpoint that only looks complete.

    Args:
        keep: How many complete checkpoints stay, 1 or more.
        damaged: Checkpoints that could not be read; they do not count as complete.
    """
    parts = parsed_names(names)
    have_payload = {p.checkpoint for p in parts if not p.is_manifest and not p.is_temporary}
    complete = [
        checkpoint
        for checkpoint in committed(names)
        if checkpoint in have_payload and checkpoint not in damaged
    ]
    doomed = _deletable_claims(names)
    if not complete:
        return doomed
    kept = set(complete[:keep])
    doomed_parts = [
        part
        for part in parts
        if part.checkpoint < complete[0] and (part.is_temporary or part.checkpoint not in kept)
    ]
    doomed_parts.sort(key=lambda part: (part.checkpoint, not part.is_commit, part.name))
    return tuple(part.name for part in doomed_parts) + doomed


def abandoned(unfinished: Collection[str], names: Collection[str], attempt: int) -> tuple[str, ...]:
    """The unfinished uploads that are never completed: those of earlier attempts and earlier saves.

    Args:
        unfinished: The names that are being uploaded, or were when their writer was killed.
    """
    newest = max(committed(names), default=CheckpointId(0, 0))
    return tuple(
        part.name
        for part in parsed_names(unfinished)
        if part.checkpoint.attempt < attempt or part.checkpoint <= newest
    )


def _deletable_claims(names: Collection[str]) -> tuple[str, ...]:
    claimed = claims(names)
    newest = max((a for name, a in claimed.items() if name == claim_name(a)), default=0)
    return tuple(sorted(name for name, attempt in claimed.items() if attempt < newest))
