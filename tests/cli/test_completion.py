"""`completion`: what the shells really complete, and that the scripts name all commands."""

import fcntl
import os
import pty
import shlex
import shutil
import struct
import subprocess
import termios
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


def fish_completes(folder: Path, line: str) -> list[str]:
    """What fish offers for the last word of this line."""
    file = folder / "mita.fish"
    file.write_text(script(grammar(), "fish"))
    program = f"source {shlex.quote(str(file))}; complete -C {shlex.quote(line)}"
    ran = subprocess.run(
        [str(shutil.which("fish")), "--no-config", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
    )
    assert ran.stderr == ""
    return [offered.partition("\t")[0] for offered in ran.stdout.splitlines()]


def zsh_completes(folder: Path, line: str) -> list[str]:
    """What zsh lists for the last word of this line, in a terminal, as a reader installs it."""
    (folder / "_mita").write_text(script(grammar(), "zsh"))
    (folder / "empty").mkdir(exist_ok=True)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 200, 300, 0, 0))
    shell = subprocess.Popen(
        [str(shutil.which("zsh")), "-f", "-i"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder / "empty",
        env={"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(folder)},
        start_new_session=True,
    )
    os.close(slave)

    def until(end: str) -> str:
        said = ""
        while end not in said:
            said += os.read(master, 65536).decode()
        return said

    try:
        setup = (
            "PS1=; unsetopt prompt_cr prompt_sp; unset zle_bracketed_paste; LISTMAX=1000; "
            f"fpath=({shlex.quote(str(folder))} $fpath); autoload -U compinit; compinit -u -D; "
            "bindkey '^I' list-choices; "
            # the line editor tells when it reads keys: before that, the terminal itself edits lines
            "zle-line-init() { print REA''DY }; zle -N zle-line-init\n"
        )
        os.write(master, setup.encode())
        until("READY")
        os.write(master, f"{line}\t\x15print DO''NE\n".encode())
        listed = until("DONE").partition("print DO")[0].replace("\r", "\n").splitlines()
    finally:
        shell.kill()
        shell.wait()
        os.close(master)
    offered = [one.partition(" -- ")[0] for one in listed if one and "mita" not in one]
    return [word for one in offered for word in one.split()]


SHELLS_THAT_COMPLETE = {"fish": fish_completes, "zsh": zsh_completes}


@pytest.mark.parametrize("shell", SHELLS_THAT_COMPLETE)
def test_other_shells_complete_the_same(tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    completes = SHELLS_THAT_COMPLETE[shell]
    assert completes(tmp_path, "mita wor") == ["worker", "workers"]
    assert completes(tmp_path, "mita worker --re") == ["--reload"]
    levels = completes(tmp_path, "mita worker jobs:app --log-level ")
    assert sorted(levels) == ["debug", "error", "info", "warning"]
    assert "rm" in completes(tmp_path, "mita repeats ")
    assert completes(tmp_path, "mita completion f") == ["fish"]
    assert completes(tmp_path, "mita enqueue jobs --stat") == [], "jobs is no command here"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_every_command(mita: Run, shell: str) -> None:
    said = mita("completion", shell)
    assert said.code == 0
    for word in ("worker", "repeats", "jobs", "doctor", "completion"):
        assert word in said.out
    assert mita("completion", shell, "--json").data["script"] == said.out


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_the_syntax_of_its_shell(tmp_path: Path, shell: str) -> None:
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
