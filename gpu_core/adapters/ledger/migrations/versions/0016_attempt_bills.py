"""What a provider's bill says of attempts."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "attempt_bills",
        sa.Column("attempt_id", sa.String, nullable=False),
        sa.Column("instance", sa.String, nullable=False),
        sa.Column("bill_start", sa.DateTime(timezone=True), nullable=False),
        sa.Column("bill_end", sa.DateTime(timezone=True), nullable=False),
        sa.Column("flow_run_id", sa.String, nullable=False),
        sa.Column("charged_micro_usd", sa.BigInteger, nullable=False),
        sa.Column("billed_micro_usd", sa.BigInteger, nullable=False),
        sa.Column("reconciled_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", "instance", "bill_start", name="pk_attempt_bills"),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.attempt_id"], name="fk_attempt_bills_attempt_id"
        ),
    )
    op.create_index("ix_attempt_bills_flow_run_id", "attempt_bills", ["flow_run_id"])
    op.create_index(
        "ix_attempt_bills_instance_bill_start", "attempt_bills", ["instance", "bill_start"]
    )
