"""Which run started a run."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Add a column that older records leave empty, and its index."""
    op.add_column("runs", sa.Column("parent_flow_run_id", sa.String))
    op.create_index("ix_runs_parent_flow_run_id", "runs", ["parent_flow_run_id"])
