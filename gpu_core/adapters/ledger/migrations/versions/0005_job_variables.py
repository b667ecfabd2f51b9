"""The job variables that an open attempt was begun with.

A deployment or a pool's template may be edited while the attempt runs. A worker that takes over
reads here whether it is a flow or containers, and what bounds it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add a column that older records leave empty."""
    op.add_column("attempts", sa.Column("job_variables", sa.JSON))
