"""`completion`: what bash really completes, and that the other scripts name all commands."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from mita.cli import grammar
from mita.cli.completion import SHELLS, script

from .conftest import Run

BASH = shutil.which("bash")


def completed(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    file = folder / "mita.bash"
    file.write_text(script(grammar(), "bash"))
    typed = " ".join(shlex.quote(word) for word in words)
    program = (
        f"source {shlex.quote(str(file))}\n"
        "[[ $(complete -p mita) == *'-F _mita mita' ]] || exit 9\n"
        f"COMP_WORDS=({typed}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))\n"
        "_mita; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    ran = subprocess.run(
        [str(BASH), "--norc", "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stderr == ""
    return ran.stdout.split()


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
def test_bash_completes_commands_options_verbs_and_values(tmp_path: Path) -> None:
    assert completed(tmp_path, "mita", "wor") == ["worker", "workers"]
    assert completed(tmp_path, "mita", "worker", "--re") == ["--reload"]
    assert completed(tmp_path, "mita", "worker", "jobs:app", "--log-level", "") == [
        "debug",
        "info",
        "warning",
        "error",
    ]
    assert completed(tmp_path, "mita", "worker", "--log-level", "=", "w") == ["warning"]
    assert "failed" in completed(tmp_path, "mita", "jobs", "--json", "--state", "f")
    assert "rm" in completed(tmp_path, "mita", "repeats", "")
    assert "--yes" in completed(tmp_path, "mita", "cancel", "--")
    assert completed(tmp_path, "mita", "completion", "f") == ["fish"]
    assert completed(tmp_path, "mita", "worker", "--name", "") == [], "any text may follow"
    assert "--number" not in completed(tmp_path, "mita", "--"), "options of Mita's own are hidden"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_every_command(mita: Run, shell: str) -> None:
    said = mita("completion", shell)
    assert said.code == 0
    for word in ("worker", "repeats", "jobs", "doctor", "completion"):
        assert word in said.out
    assert mita("completion", shell, "--json").data["script"] == said.out


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_the_syntax_of_its_shell(tmp_path: Path, shell: str) -> None:
    """zsh and fish only where they are installed: bash checks only the quotes of zsh's script."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"there is no {shell} here")
    file = tmp_path / "script"
    file.write_text(script(grammar(), shell))
    subprocess.run([program, "-n", str(file)], check=True, timeout=60)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_quotes_of_help_texts_are_balanced(shell: str) -> None:
    for line in script(grammar(), shell).splitlines():
        if "complete -c" in line or "found=(" in line:
            text = line.replace("\\'", "")
            assert text.count("'") % 2 == 0, line


def test_an_unknown_shell_is_refused(mita: Run) -> None:
    said = mita("completion", "bsh")
    assert (said.code, "did you mean 'bash'?" in said.err) == (2, True)
