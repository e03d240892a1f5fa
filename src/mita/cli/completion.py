"""The command `completion`: scripts by which shells complete commands and options. They are made
from the parser, so they know what `--help` knows, and start no Python while they complete."""

import argparse
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from .exits import Exit
from .parser import Commands, Parser
from .screen import Report, Screen

SHELLS = ("bash", "zsh", "fish")
_ABOUT = """To use it:
  bash   mita completion bash > ~/.local/share/bash-completion/completions/mita
  zsh    mita completion zsh > "${fpath[1]}/_mita"
  fish   mita completion fish > ~/.config/fish/completions/mita.fish"""


class Option(NamedTuple):
    """An option: its names, its help, whether a value follows, and which values there are."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    choices: tuple[str, ...]


class CommandNode(NamedTuple):
    """A command: the words that lead to it, its help, its options and its commands. `choices` are
    the values of its positional argument, if these are few."""

    path: tuple[str, ...]
    help: str
    options: tuple[Option, ...]
    commands: tuple[tuple[str, str], ...]
    choices: tuple[str, ...]


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add("completion", show, about=_ABOUT)
    parser.add_argument("shell", choices=SHELLS)


def show(options: argparse.Namespace, screen: Screen) -> int:
    """Run `mita completion`."""
    from . import grammar

    text = script(grammar(), options.shell)
    if screen.json:
        return screen.show(Report({"shell": options.shell, "script": text}))
    print(text, end="")  # as it is: a screen would wrap it or replace characters
    return Exit.OK


def script(parser: Parser, shell: str) -> str:
    """The completion script of this shell."""
    nodes = list(_nodes(parser, (), ""))
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](nodes)


def _nodes(parser: argparse.ArgumentParser, path: tuple[str, ...], help: str) -> Iterator[Any]:
    options, commands, choices = [], [], tuple[str, ...]()
    inner: list[tuple[argparse.ArgumentParser, str, str]] = []
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            listed = action._choices_actions  # noqa: SLF001
            helps = {one.dest: one.help or "" for one in listed}
            for name, child in action.choices.items():
                commands.append((name, _line(helps.get(name, ""))))
                inner.append((child, name, helps.get(name, "")))
        elif action.option_strings and action.help != argparse.SUPPRESS:
            options.append(
                Option(
                    tuple(action.option_strings),
                    _line(action.help or ""),
                    action.nargs != 0,
                    tuple(map(str, action.choices or ())),
                )
            )
        elif action.choices and not action.option_strings:
            choices = tuple(map(str, action.choices))
    yield CommandNode(path, _line(help), tuple(options), tuple(commands), choices)
    for child, name, words in inner:
        yield from _nodes(child, (*path, name), words)


def _line(help: str) -> str:
    """The help as one line, without what a shell could take for its own."""
    return re.sub(r"\s+", " ", help.replace("%%", "%")).strip()


def _key(path: tuple[str, ...]) -> str:
    return "/".join(path)


# ---------------------------------------------------------------- bash


def _bash(nodes: list[CommandNode]) -> str:
    lines = [
        "# bash completion for mita: mita completion bash",
        "_mita() {",
        "  local word path= i cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}",
        "  [[ $cur == '=' ]] && cur=",
        "  [[ $prev == '=' ]] && prev=${COMP_WORDS[COMP_CWORD-2]}",
        "  for ((i = 1; i < COMP_CWORD; i++)); do",
        "    word=${COMP_WORDS[i]}",
        '    case "$path/$word" in',
    ]
    paths = [f"/{_key(node.path)}" for node in nodes if node.path]
    lines.append(f"      {'|'.join(paths)}) path=$path/$word ;;")
    lines += ["    esac", "  done", '  case "$path $prev" in']
    for node in nodes:
        key = f"/{_key(node.path)}" if node.path else ""
        for option in node.options:
            if option.takes_value:
                names = "|".join(f'"{key} {name}"' for name in option.names)
                words = " ".join(option.choices)
                act = f'COMPREPLY=($(compgen -W "{words}" -- "$cur"))' if words else "COMPREPLY=()"
                lines.append(f"    {names}) {act}; return ;;")
    lines += ["  esac", '  case "$path" in']
    for node in nodes:
        key = f"/{_key(node.path)}" if node.path else '""'
        listed = [name for option in node.options for name in option.names]
        plain = [name for name, _ in node.commands] + list(node.choices)
        lines += [
            f"    {key})",
            "      if [[ $cur == -* ]]; then",
            f'        COMPREPLY=($(compgen -W "{" ".join(listed)}" -- "$cur"))',
            "      else",
            f'        COMPREPLY=($(compgen -W "{" ".join(plain)}" -- "$cur"))',
            "      fi ;;",
        ]
    return "\n".join([*lines, "  esac", "}", "complete -o default -F _mita mita", ""])


# ---------------------------------------------------------------- zsh


def _zsh(nodes: list[CommandNode]) -> str:
    paths = [f"/{_key(node.path)}" for node in nodes if node.path]
    lines = [
        "#compdef mita",
        "# zsh completion for mita: mita completion zsh",
        "_mita() {",
        "  local cmd='' word i prev=${words[CURRENT-1]} cur=${words[CURRENT]}",
        "  local -a found",
        "  for (( i = 2; i < CURRENT; i++ )); do",
        "    word=${words[i]}",
        '    case "$cmd/$word" in',
        f"      ({'|'.join(paths)}) cmd=$cmd/$word ;;",
        "    esac",
        "  done",
        '  case "$cmd $prev" in',
    ]
    for node in nodes:
        key = f"/{_key(node.path)}" if node.path else ""
        for option in node.options:
            if option.takes_value:
                names = "|".join(f'"{key} {name}"' for name in option.names)
                act = f"compadd -- {' '.join(option.choices)}" if option.choices else "_files"
                lines.append(f"    ({names}) {act}; return ;;")
    lines += ["  esac", '  case "$cmd" in']
    for node in nodes:
        key = f"/{_key(node.path)}" if node.path else '""'
        options = [f"{name}:{option.help}" for option in node.options for name in option.names]
        plain = [f"{name}:{help}" for name, help in node.commands]
        plain += list(node.choices)
        lines += [
            f"    ({key})",
            f"      if [[ $cur == -* ]]; then found=({_zsh_list(options)})",
            f"      else found=({_zsh_list(plain)}); fi ;;",
        ]
    lines += [
        "  esac",
        "  if (( $#found )); then _describe mita found; else _files; fi",
        "}",
        "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then",
        '  _mita "$@"',
        "else",
        "  compdef _mita mita",
        "fi",
        "",
    ]
    return "\n".join(lines)


def _zsh_list(words: list[str]) -> str:
    return " ".join(_quoted(word) for word in words)


def _quoted(text: str) -> str:
    """Text in single quotes, for any shell."""
    return "'" + text.replace("'", "'\\''") + "'"


# ---------------------------------------------------------------- fish


def _fish(nodes: list[CommandNode]) -> str:
    paths = " ".join(f"/{_key(node.path)}" for node in nodes if node.path)
    lines = [
        "# fish completion for mita: mita completion fish",
        "function __mita_is_at",  # whether the words so far lead to this command
        "  set -l at ''",
        "  for word in (commandline -opc)[2..-1]",
        '    switch "$at/$word"',
        f"      case {paths}",
        '        set at "$at/$word"',
        "    end",
        "  end",
        '  test "$at" = "$argv[1]"',
        "end",
        "complete -c mita -f",
    ]
    for node in nodes:
        here = (
            f"complete -c mita -n '__mita_is_at \"{f'/{_key(node.path)}' if node.path else ''}\"'"
        )
        for name, help in node.commands:
            lines.append(f"{here} -a {name} -d {_fish_text(help)}")
        if node.choices:
            lines.append(f"{here} -a {_fish_text(' '.join(node.choices))}")
        lines += [f"{here} {_fish_option(option)}" for option in node.options]
    return "\n".join([*lines, ""])


def _fish_option(option: Option) -> str:
    names = [
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
    ]
    value = []
    if option.choices:
        value = [f"-x -a {_fish_text(' '.join(option.choices))}"]
    elif option.takes_value:
        value = ["-r"]
    return " ".join([*names, *value, f"-d {_fish_text(option.help)}"])


def _fish_text(text: str) -> str:
    """Text in single quotes, as fish reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
