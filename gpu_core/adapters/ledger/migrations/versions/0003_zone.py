"""In which zone an attempt was.

A spot node that was taken away is gone from its cluster with all its labels; the next attempt must
still know which zone to leave alone.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add a column that older records leave empty."""
    op.add_column("attempts", sa.Column("zone", sa.String))
