"""What an attempt pays for, and at which prices: parts of GPUs exactly, CPU and memory, the source.

A row without a source was written before: its price is that of the part of a GPU that it held.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add columns that older records leave empty."""
    op.add_column("attempts", sa.Column("gpu_quantity", sa.String))
    op.add_column("attempts", sa.Column("cpu_milli", sa.BigInteger))
    op.add_column("attempts", sa.Column("memory_mib", sa.BigInteger))
    op.add_column("attempts", sa.Column("price_micro_usd_per_cpu_hour", sa.BigInteger))
    op.add_column("attempts", sa.Column("price_micro_usd_per_gib_hour", sa.BigInteger))
    op.add_column("attempts", sa.Column("price_source", sa.String))
    op.add_column("attempts", sa.Column("price_as_of", sa.DateTime(timezone=True)))
    op.add_column("attempts", sa.Column("later_prices", sa.JSON))
