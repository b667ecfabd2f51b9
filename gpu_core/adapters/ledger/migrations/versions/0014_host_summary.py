"""What an attempt's processes took of their machine, in a few numbers."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add a column that older records leave empty."""
    op.add_column("attempts", sa.Column("host_summary", sa.JSON))
