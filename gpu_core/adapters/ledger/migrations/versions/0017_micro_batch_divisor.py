"""What an attempt's micro-batch was divided by after earlier ones ran out of GPU memory."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add a column that older records leave empty."""
    op.add_column("attempts", sa.Column("micro_batch_divisor", sa.Integer))
