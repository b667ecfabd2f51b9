"""How many GPUs of a machine were held because they are not well."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Add a column that older records leave empty."""
    op.add_column("capacity_intervals", sa.Column("faulty_gpus", sa.Integer))
