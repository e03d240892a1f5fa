"""Mita on the engine of CFG: one worker process, concurrency 100, uvloop when installed, succeeded
jobs forgotten at once (keep=0) as the other peers do; durability as the store's default. The
harness asks an adapter about itself with no store at hand; that question is answered on a store in
memory. The worker's process is set up as `mita worker` sets up its own."""

import runpy
from pathlib import Path

import common  # type: ignore[import-not-found]  # of the harness, which puts it on the path

from mita.cli.gc_tuning import freeze_startup_objects

if common.CFG.get("url") == "none":
    common.CFG["url"] = "memory://"

freeze_startup_objects()
runpy.run_path(str(Path(common.__file__).parent / "adapters" / "ad_mita.py"), run_name="__main__")
