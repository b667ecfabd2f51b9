"""Intervals of capacity by node: a report joins them with the attempts on each."""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Create the index."""
    op.create_index(
        "ix_capacity_intervals_host_node_since", "capacity_intervals", ["host", "node", "since"]
    )
