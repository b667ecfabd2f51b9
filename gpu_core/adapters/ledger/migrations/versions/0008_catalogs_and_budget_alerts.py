"""What refresh-catalog found, and which budgets were reported."""

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
