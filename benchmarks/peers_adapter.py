"""Mita on the engine of CFG: one worker process, concurrency 100, uvloop if it is installed,
succeeded jobs deleted at once (keep=0) as in the other queues, and the default durability of the
store. The harness asks for a description without a store; a store in memory answers that. The
process is set up like that of `mita worker`."""

import runpy
from pathlib import Path

import common  # type: ignore[import-not-found]  # of the harness, which puts it on the path

from mita.cli.gc_tuning import freeze_startup_objects

if common.CFG.get("url") == "none":
    common.CFG["url"] = "memory://"

freeze_startup_objects()
runpy.run_path(str(Path(common.__file__).parent / "adapters" / "ad_mita.py"), run_name="__main__")
