"""How often an attempt saved, and what a save costs: what a better interval is found from."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Add two columns. Records from before have neither."""
    op.add_column("attempts", sa.Column("saves", sa.Integer))
    op.add_column("attempts", sa.Column("save_stall_s", sa.Double))
