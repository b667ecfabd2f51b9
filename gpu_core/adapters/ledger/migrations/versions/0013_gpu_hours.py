"""What GPUs did minute by minute, an hour of a GPU in each row."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "gpu_hours",
        sa.Column("gpu_id", sa.String, nullable=False),
        sa.Column("hour", sa.DateTime(timezone=True), nullable=False),
        sa.Column("windows", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("gpu_id", "hour", name="pk_gpu_hours"),
    )
    op.create_index("ix_gpu_hours_hour", "gpu_hours", ["hour"])
