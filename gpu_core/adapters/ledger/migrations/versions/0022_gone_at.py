"""How an attempt ended, from the moment when its GPUs are free until its end is judged."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Add columns that are empty for attempts that hold their GPUs and for those that are over."""
    op.add_column("attempts", sa.Column("gone_at", sa.DateTime(timezone=True)))
    op.add_column("attempts", sa.Column("exit", sa.JSON))
