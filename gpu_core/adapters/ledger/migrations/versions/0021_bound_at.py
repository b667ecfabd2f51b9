"""Since when the nodes of an attempt are certain: until then they are only planned."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Add a column that open attempts get from their pods, and processes have from the beginning.

    Records of attempts that are over leave it empty: their nodes are final.
    """
    op.add_column("attempts", sa.Column("bound_at", sa.DateTime(timezone=True)))
    op.execute(
        "UPDATE attempts SET bound_at = admitted_at WHERE pid IS NOT NULL AND released_at IS NULL"
    )
