"""I15: a record that cannot be read is set aside in sight, and nothing else stops for it.

`MITA_SOAK=1` adds garbage made by chance; `MITA_SEED=n` other chances.
"""

import os
from pathlib import Path

import pytest

from .harness import ROLES, shake
from .sqlite import SqliteLayout

SEED = int(os.environ.get("MITA_SEED", "1")) if "MITA_SOAK" in os.environ else None


@pytest.mark.timeout(300)
async def test_every_field_of_every_record_in_sqlite(tmp_path: Path) -> None:
    await shake(f"sqlite:///{tmp_path}/jobs.db", SqliteLayout(tmp_path / "jobs.db", SEED), ROLES)
