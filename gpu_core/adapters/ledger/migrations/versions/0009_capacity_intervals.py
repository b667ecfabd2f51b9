"""When which machine was there, at which price: idle capacity has a cost, too."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Create the table."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "capacity_intervals",
        sa.Column("interval_id", sa.String, nullable=False),
        sa.Column("host", sa.String, nullable=False),
        sa.Column("pool", sa.String, nullable=False),
        sa.Column("node", sa.String, nullable=False),
        sa.Column("incarnation", sa.String),
        sa.Column("instance_id", sa.String),
        sa.Column("instance_type", sa.String),
        sa.Column("region", sa.String),
        sa.Column("zone", sa.String),
        sa.Column("capacity_type", sa.String, nullable=False),
        sa.Column("gpu_type", sa.String, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("cpu_milli", sa.BigInteger),
        sa.Column("memory_mib", sa.BigInteger),
        sa.Column("micro_usd_per_hour", sa.BigInteger),
        sa.Column("price_source", sa.String),
        sa.Column("price_as_of", moment),
        sa.Column("since", moment, nullable=False),
        sa.Column("until", moment),
        sa.Column("seen_at", moment, nullable=False),
        sa.Column("end_reason", sa.String),
        sa.Column("is_end_estimated", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("interval_id", name="pk_capacity_intervals"),
    )
    op.create_index("ix_capacity_intervals_until", "capacity_intervals", ["until"])
    op.create_index(
        "uq_capacity_intervals_open",
        "capacity_intervals",
        ["host", "node"],
        unique=True,
        sqlite_where=sa.text("until IS NULL"),
        postgresql_where=sa.text("until IS NULL"),
    )
