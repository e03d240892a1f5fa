"""What a program loads: only what it uses. No test here measures time."""

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import mita
from mita.cli import commands as command_table
from mita.cli import grammar

SHOW = "import sys, json; print('LOADED', json.dumps(sorted(sys.modules)))"
HELP = f"""
import mita.cli
try:
    mita.cli.main(["--help"])
except SystemExit:
    {SHOW}
"""
HEAVY = ("asyncio", "concurrent.futures", "importlib.metadata", "msgspec", "subprocess", "cronsim")
DRIVERS = ("psycopg", "redis", "valkey", "nats", "sqlite3", "rich", "prometheus_client")
EXTRAS = (*DRIVERS, "opentelemetry", "uvloop", "wsgiref", "http.server", "django", "pytest")
ABOVE_AN_APP = (
    "mita.engine",
    "mita.web",
    "mita.cli",
    "mita.metrics",
    "mita.probes",
    "mita.testing",
)


def loaded(code: str, tmp_path: Path) -> set[str]:
    """The modules that are loaded after this code."""
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    [line] = [line for line in told.stdout.splitlines() if line.startswith("LOADED")]
    return set(json.loads(line.removeprefix("LOADED ")))


def of(modules: set[str], packages: tuple[str, ...]) -> set[str]:
    """Those modules that are one of these or inside of one."""
    return {
        module
        for module in modules
        if any(module == name or module.startswith(f"{name}.") for name in packages)
    }


def test_import_mita_loads_nothing_else(tmp_path: Path) -> None:
    modules = loaded(f"import mita; {SHOW}", tmp_path)
    assert of(modules, ("mita",)) == {"mita"}
    assert not of(modules, (*HEAVY, *EXTRAS))


def test_an_app_loads_no_engine_store_or_extra(tmp_path: Path) -> None:
    modules = loaded(f"from mita import Mita; Mita('memory://'); {SHOW}", tmp_path)
    assert not of(modules, (*EXTRAS, *ABOVE_AN_APP, "importlib.metadata"))
    assert of(modules, ("mita.stores",)) == {"mita.stores", "mita.stores.registry"}


def test_help_loads_no_command(tmp_path: Path) -> None:
    modules = loaded(HELP, tmp_path)
    assert not of(modules, (*EXTRAS, "asyncio", "importlib.metadata", "mita.app", "mita.tasks"))
    own = {f"mita.cli.{module}" for module in command_table.COMMANDS}
    assert not modules & own


def test_a_worker_has_loaded_what_it_needs_before_it_runs_a_job(tmp_path: Path) -> None:
    code = f"""
import asyncio, sys
from mita import Mita
app = Mita("sqlite:///jobs.db")
before = set()

@app.task
async def look() -> None:
    before.update(sys.modules)

async def run():
    await look.enqueue()
    await app.worker(until_empty=True).run()

asyncio.run(run())
late = sorted(name for name in set(sys.modules) - before if name.startswith("mita"))
assert not late, late
{SHOW}
"""
    assert "mita.engine.executor" in loaded(code, tmp_path)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(mita.__file__).read_text(encoding="utf-8"))
    [block] = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    checked = {
        name.asname or name.name: (imported.module, name.name)
        for imported in block.body
        if isinstance(imported, ast.ImportFrom)
        for name in imported.names
    }
    assert checked == mita._HOME_OF
    assert sorted(checked) == sorted(mita.__all__)


def test_a_name_is_that_of_its_home_and_stays() -> None:
    for name, (module, there) in mita._HOME_OF.items():
        assert getattr(mita, name) is getattr(import_module(module), there)
        assert name in vars(mita)
    assert set(mita.__all__) <= set(dir(mita))


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="'mita' has no attribute 'Mitta'"):
        _ = mita.Mitta  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="Mitta"):
        exec("from mita import Mitta")


def test_the_table_of_commands_names_what_the_modules_add() -> None:
    [action] = [action for action in grammar()._actions if action.dest == "command"]
    named = [name for names in command_table.COMMANDS.values() for name in names]
    assert list(action.choices or ()) == named
