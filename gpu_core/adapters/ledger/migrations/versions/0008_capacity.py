"""What there was and what it cost, what refresh-catalog found, and which budgets were reported."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create the tables."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "catalogs",
        sa.Column("provider", sa.String, nullable=False),
        sa.Column("sheet", sa.JSON, nullable=False),
        sa.Column("refreshed_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("provider", name="pk_catalogs"),
    )
    op.create_table(
        "capacity",
        sa.Column("pool", sa.String, nullable=False),
        sa.Column("node", sa.String, nullable=False),
        sa.Column("up_at", moment, nullable=False),
        sa.Column("gone_at", moment),
        sa.Column("last_seen_at", moment, nullable=False),
        sa.Column("provider_id", sa.String),
        sa.Column("instance_type", sa.String),
        sa.Column("zone", sa.String),
        sa.Column("capacity_type", sa.String, nullable=False),
        sa.Column("gpu_type", sa.String),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("cpu_milli", sa.BigInteger),
        sa.Column("memory_mib", sa.BigInteger),
        sa.Column("price_micro_usd_per_hour", sa.BigInteger),
        sa.Column("price_source", sa.String),
        sa.Column("price_as_of", moment),
        sa.PrimaryKeyConstraint("pool", "node", "up_at", name="pk_capacity"),
    )
    op.create_index("ix_capacity_gone_at", "capacity", ["gone_at"])
    op.create_table(
        "budget_alerts",
        sa.Column("pool", sa.String, nullable=False),
        sa.Column("budget", sa.String, nullable=False),
        sa.Column("period_start", moment, nullable=False),
        sa.Column("percent", sa.Integer, nullable=False),
        sa.Column("sent_at", moment, nullable=False),
        sa.PrimaryKeyConstraint(
            "pool", "budget", "period_start", "percent", name="pk_budget_alerts"
        ),
    )
