"""What an attempt holds on each node, what runs it, and how its end was judged.

Attempts on Kubernetes have no process number and no folder on the worker's machine, and may hold
parts of GPUs on several nodes.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add three columns that older records leave empty."""
    op.add_column("attempts", sa.Column("shares", sa.JSON))
    op.add_column("attempts", sa.Column("infrastructure", sa.String))
    op.add_column("attempts", sa.Column("settlement", sa.JSON))
