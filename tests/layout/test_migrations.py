"""The ledger's migrations are one chain: a second one of the same number stops every worker."""

from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory

FOLDER = Path("gpu_core/adapters/ledger/migrations")


def test_each_migration_follows_the_one_before_it() -> None:
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    revisions = list(reversed(list(ScriptDirectory.from_config(config).walk_revisions())))
    numbers = [script.revision for script in revisions]
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
    assert [script.down_revision for script in revisions] == [None, *numbers[:-1]]
    names = sorted(path.stem.split("_")[0] for path in (FOLDER / "versions").glob("0*.py"))
    assert names == numbers
