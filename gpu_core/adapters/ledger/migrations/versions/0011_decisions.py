"""Who decided what, when and why: records that are chained by hashes."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "decisions",
        sa.Column("decision_id", sa.String, nullable=False),
        sa.Column("writer", sa.String, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("decided_at", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("pool", sa.String, nullable=False),
        sa.Column("flow_run_id", sa.String),
        sa.Column("who", sa.String, nullable=False),
        sa.Column("reason", sa.String),
        sa.Column("message", sa.String, nullable=False),
        sa.Column("numbers", sa.String, nullable=False),
        sa.Column("previous_hash", sa.String, nullable=False),
        sa.Column("hash", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("decision_id", name="pk_decisions"),
        sa.UniqueConstraint("writer", "number", name="uq_decisions_writer_number"),
    )
    op.create_index("ix_decisions_flow_run_id", "decisions", ["flow_run_id"])
