"""Run by Alembic: migrate over the connection that `migrate.py` hands in, in its transaction."""

from alembic import context

from gpu_core.adapters.ledger.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite changes columns by copying the table.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
