"""Folders of checkpoints: the names in them, whole, cut short or foreign."""

from hypothesis import strategies as st

from gpu_core.decisions.checkpoints.object_names import CheckpointId, claim_name

ids = st.builds(CheckpointId, st.integers(1, 4), st.integers(1, 6))
part_names = st.builds(
    lambda checkpoint, suffix, temporary: f"{checkpoint}{suffix}{temporary}",
    ids,
    st.sampled_from([".bin", ".json"]),
    st.sampled_from(["", "", ".0f0f.tmp"]),
)
claim_names = st.builds(claim_name, st.integers(1, 4))
folders = st.frozensets(part_names | claim_names | st.sampled_from(["notes.txt", "x.tmp"]))


def whole(*checkpoints: CheckpointId) -> list[str]:
    return [name for c in checkpoints for name in (c.payload_name, c.manifest_name)]
