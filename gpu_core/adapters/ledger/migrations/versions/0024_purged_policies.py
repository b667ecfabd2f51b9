"""The policies that were in force before the first record of the log that is kept."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Create the table. Policies that were purged before are not known any more."""
    op.create_table(
        "purged_policies",
        sa.Column("decision_id", sa.String, nullable=False),
        sa.Column("pool", sa.String, nullable=False),
        sa.Column("decided_at", sa.String, nullable=False),
        sa.Column("numbers", sa.String, nullable=False),
        sa.PrimaryKeyConstraint("decision_id", name="pk_purged_policies"),
    )
