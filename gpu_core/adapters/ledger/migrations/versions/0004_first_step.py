"""When an attempt did its first new step, and how much work an interruption of it loses.

Both say what a changeover costs: the time from the admission to the first new step, and the work
since the newest checkpoint.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add two columns that older records leave empty."""
    op.add_column("attempts", sa.Column("first_step_at", sa.DateTime(timezone=True)))
    op.add_column("attempts", sa.Column("expected_loss_s", sa.Double))
