"""What an attempt's GPUs did, in a few numbers for each."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add a column that older records leave empty."""
    op.add_column("attempts", sa.Column("gpu_summaries", sa.JSON))
