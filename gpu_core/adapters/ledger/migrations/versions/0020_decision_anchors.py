"""Where the log of decisions was cut by a purge, signed."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "decision_anchors",
        sa.Column("writer", sa.String, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.String, nullable=False),
        sa.Column("purged_at", sa.String, nullable=False),
        sa.Column("signature", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("writer", "number", name="pk_decision_anchors"),
    )
