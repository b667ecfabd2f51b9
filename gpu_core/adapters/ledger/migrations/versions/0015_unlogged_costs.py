"""Runs whose cost is not in MLflow yet."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "unlogged_costs",
        sa.Column("flow_run_id", sa.String, nullable=False),
        sa.Column("pool", sa.String, nullable=False),
        sa.Column("host", sa.String, nullable=False),
        sa.Column("cause", sa.String, nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("change_id", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("flow_run_id", name="pk_unlogged_costs"),
        sa.ForeignKeyConstraint(
            ["flow_run_id"], ["runs.flow_run_id"], name="fk_unlogged_costs_flow_run_id"
        ),
    )
    op.create_index("ix_unlogged_costs_pool_since", "unlogged_costs", ["pool", "since"])
