"""Which installation acts for a work pool.

Workers that share a lease agree among themselves. Two installations have two leases, and what they
share is this database.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create the table."""
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "pool_claims",
        sa.Column("pool_id", sa.String, nullable=False),
        sa.Column("pool", sa.String, nullable=False),
        sa.Column("cluster", sa.String, nullable=False),
        sa.Column("namespace", sa.String, nullable=False),
        sa.Column("holder", sa.String, nullable=False),
        sa.Column("claimed_at", moment, nullable=False),
        sa.Column("renewed_at", moment, nullable=False),
        sa.Column("renewals", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("pool_id", name="pk_pool_claims"),
    )
