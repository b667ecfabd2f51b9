"""Runs and their attempts.

A migration keeps its own copy of the columns: the tables of today are not those of tomorrow.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create both tables."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "runs",
        sa.Column("flow_run_id", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("flow_name", sa.String, nullable=False),
        sa.Column("deployment", sa.String),
        sa.Column("pool", sa.String, nullable=False),
        sa.Column("queue", sa.String),
        sa.Column("team", sa.String),
        sa.Column("user", sa.String),
        sa.Column("project", sa.String),
        sa.Column("experiment", sa.String),
        sa.Column("model", sa.String),
        sa.Column("workload_type", sa.String),
        sa.Column("priority", sa.BigInteger, nullable=False),
        sa.Column("submitted_at", moment, nullable=False),
        sa.Column("provenance", sa.String, nullable=False),
        sa.Column("final_state", sa.String),
        sa.PrimaryKeyConstraint("flow_run_id", name="pk_runs"),
    )
    op.create_table(
        "attempts",
        sa.Column("attempt_id", sa.String, nullable=False),
        sa.Column("flow_run_id", sa.String, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("pool", sa.String, nullable=False),
        sa.Column("host", sa.String, nullable=False),
        sa.Column("node", sa.String, nullable=False),
        sa.Column("gpu_type", sa.String),
        sa.Column("gpu_ids", sa.JSON, nullable=False),
        sa.Column("capacity_type", sa.String, nullable=False),
        sa.Column("price_micro_usd_per_gpu_hour", sa.BigInteger),
        sa.Column("admitted_at", moment, nullable=False),
        sa.Column("started_at", moment),
        sa.Column("released_at", moment),
        sa.Column("last_seen_at", moment),
        sa.Column("pid", sa.BigInteger),
        sa.Column("pid_created_at", sa.Double),
        sa.Column("drain_requested_at", moment),
        sa.Column("drain_reason", sa.String),
        sa.Column("drain_deadline_at", moment),
        sa.Column("drain_message", sa.String),
        sa.Column("preempted_by", sa.String),
        sa.Column("end_reason", sa.String),
        sa.Column("end_message", sa.String),
        sa.Column("exit_code", sa.Integer),
        sa.Column("is_charged_failure", sa.Boolean, nullable=False),
        sa.Column("is_end_estimated", sa.Boolean, nullable=False),
        sa.Column("restored_from", sa.String),
        sa.Column("checkpoint", sa.String),
        sa.Column("checkpointed_at", moment),
        sa.PrimaryKeyConstraint("attempt_id", name="pk_attempts"),
        sa.ForeignKeyConstraint(["flow_run_id"], ["runs.flow_run_id"], "fk_attempts_flow_run_id"),
        sa.UniqueConstraint("flow_run_id", "number", name="uq_attempts_flow_run_id_number"),
    )
    op.create_index("ix_attempts_admitted_at", "attempts", ["admitted_at"])
    op.create_index("ix_attempts_released_at", "attempts", ["released_at"])
    op.create_index(
        "ix_attempts_open",
        "attempts",
        ["pool", "host"],
        sqlite_where=sa.text("released_at IS NULL"),
        postgresql_where=sa.text("released_at IS NULL"),
    )


def downgrade() -> None:
    """Drop both tables."""
    op.drop_table("attempts")
    op.drop_table("runs")
