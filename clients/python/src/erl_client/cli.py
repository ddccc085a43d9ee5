"""The command `erl`. An agent waits for its hooks, so they import nothing that they do not need."""

import argparse
import io
import sys
from collections.abc import Sequence

from erl_client.api import ERLError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0, or 1 where something could not be done."""
    arguments = sys.argv[1:] if arguments is None else arguments
    is_hook = arguments[:1] == ["hook"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a console may lack the characters of a lesson: they are spelled out
            stream.reconfigure(errors="backslashreplace")
    try:
        options = _parser(hooks_only=is_hook).parse_args(arguments)
    except SystemExit:
        if not is_hook:
            raise
        return 0  # 2 would keep Claude Code from sending the prompt
    try:
        done: int = options.command(options)
    except (ERLError, OSError) as error:
        print(f"erl: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, EOFError):
        print(file=sys.stderr)
        return 130
    return done


def _parser(*, hooks_only: bool) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="erl",
        description="Lessons for AI agents. The address and the key of ERL are read from ERL_URL and ERL_API_KEY, or "
        "else from what `erl login` stored.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    if hooks_only:
        from erl_client.coding_agents import hooks

        hooks.add_parser(commands)
    else:
        from erl_client.commands import add_parsers

        add_parsers(commands)
    return parser
