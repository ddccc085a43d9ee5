"""Shell commands as calls: the program, its arguments, and whether it runs tests, builds, or could do harm."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_SHELL_TOOL_WORDS = """
bash shell sh terminal exec_command shell_command local_shell execute_bash run_command run_bash run_shell run
run_shell_command run_in_terminal run_terminal_cmd execute_command cmd powershell container.exec
"""
_COMMAND_PARAMETERS = ("command", "cmd", "commands", "script", "code", "input")
# Programs that agents without a shell tool name as their action, as in SWE-agent.
_PROGRAM_WORDS = """
python python3 pip pip3 pytest ls cat cd cp mv rm mkdir touch echo grep rg sed awk head tail wc sort find file pwd
git make node npm npx yarn pnpm cargo go gcc g++ clang java javac mvn gradle curl wget tar unzip chmod chown export
which apt apt-get docker uv poetry tox ruby bundle rake php composer perl bash sh env sudo tree diff
"""
_READER_WORDS = "cat head tail less more sed awk grep rg ag find ls tree wc file stat diff od xxd jq"
_SUBCOMMAND_WORDS = "python python3 git cargo go docker pip pip3 dotnet make mvn gradle apt apt-get rake"
_SHELL_TOOLS = frozenset(_SHELL_TOOL_WORDS.split())
_PROGRAMS = frozenset(_PROGRAM_WORDS.split())
_READERS = frozenset(_READER_WORDS.split())
_SUBCOMMANDS = frozenset(_SUBCOMMAND_WORDS.split())
_WRAPPERS = frozenset(["sudo", "time", "timeout", "nohup", "env", "command", "exec", "xargs"])
_LAUNCHERS = frozenset(["uv", "poetry", "pipenv", "pdm", "hatch", "rye", "bundle", "npx", "pnpm", "yarn", "npm"])
_HARMFUL = re.compile(
    r"\b(?:rm|sudo|su|chmod|chown|kill|pkill|killall|dd|mkfs\w*|shutdown|reboot|truncate|shred)\b"
    r"|--force\b|--no-verify|--hard\b|\bgit (?:push|clean|checkout \.|restore)|--break-system"
    r"|\|\s*(?:ba)?sh\b"
)
_TEST = re.compile(
    r"(?:^|[\s/])(?:pytest|py\.test|tox|nox|unittest|jest|vitest|mocha|rspec|phpunit|ctest|runtests(?:\.py)?)\b"
    r"|\b(?:npm|yarn|pnpm|bun) (?:run )?test\b|\b(?:cargo|go|mix|dotnet|swift|make|rake|mvn|gradlew?|manage\.py) test\b"
)
_BUILD = re.compile(
    r"\b(?:npm|yarn|pnpm|bun) (?:run )?(?:build|lint|typecheck)\b|\b(?:cargo|go|dotnet|swift|zig) (?:build|check|vet)\b"
    r"|(?:^|\s)(?:make|tsc|mypy|ruff|eslint|flake8|gcc|g\+\+|clang|javac|cmake|ninja|mvn (?:compile|package)|pyright)\b"
)
_RED = re.compile(
    r"(?:^|[^\w.0])(?:[1-9]\d* (?:failed|failing|errors?|failures?)\b)|^(?:FAILED|FAIL|ERROR)\b|\bFAILED \("
    r"|error\[E\d+\]|^.*\berror(?: TS\d+)?: |Traceback \(most recent call last\)|^make: \*\*\*"
    r"|Tests?:\s+[1-9]\d* failed|^E\s{2,}\S|exit(?:ed with)?[ _\"]*code[\":]* [1-9]|test result: FAILED|npm ERR!",
    re.MULTILINE,
)
_GREEN = re.compile(
    r"\b[1-9]\d* (?:passed|passing|tests? passed)\b|^OK\b|test result: ok|\ball tests passed\b|^ok\s+\S+"
    r"|Success: no issues|All checks passed|BUILD SUCCESS|exit(?:ed with)?[ _\"]*code[\":]* 0\b",
    re.MULTILINE | re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShellCommand:
    """One shell command: its text without `cd …` in front and output filters behind, its program, and its arguments."""

    text: str
    program: str
    arguments: tuple[str, ...] = ()

    @property
    def is_test(self) -> bool:
        return _TEST.search(self.text) is not None

    @property
    def is_build(self) -> bool:
        return not self.is_test and _BUILD.search(self.text) is not None

    @property
    def is_reader(self) -> bool:
        return self.program in _READERS

    @property
    def is_harmful(self) -> bool:
        """Return whether the command deletes, overwrites history, or takes rights: never a thing to recommend."""
        return _HARMFUL.search(self.text) is not None

    @property
    def name(self) -> str:
        """The program as a person would name it: `python -m pytest`, `uv run pytest`, `npm test`."""
        words = [self.program]
        for word in self.arguments:
            if not re.fullmatch(r"-m|[a-z][a-z_-]*", word) or len(words) == 4:
                break
            if self.program in ("python", "python3") and words[-1] != "-m" and word != "-m":
                break
            words.append(word)
            if words[-2] == "-m" or (self.program not in _LAUNCHERS and words[1:] and words[1] != "-m"):
                break
            if self.program in _LAUNCHERS and len(words) == 3 and words[1] in ("run", "exec"):
                break
        return " ".join(words) if self.program in (*_LAUNCHERS, *_SUBCOMMANDS) else self.program


def read_command(name: str, arguments: Mapping[str, Any]) -> ShellCommand | None:
    """Return the shell command of a call, or None if it is not one."""
    if name.lower() in _SHELL_TOOLS:
        text = next((arguments[parameter] for parameter in _COMMAND_PARAMETERS if arguments.get(parameter)), "")
        if isinstance(text, list):
            words = [str(word) for word in text]
            # Codex sends ["bash", "-lc", "…"].
            text = words[-1] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
        return parse_command(text) if isinstance(text, str) and text.strip() else None
    if name in _PROGRAMS and set(arguments) <= {"input"}:
        return parse_command(f"{name} {arguments.get('input', '')}".strip())
    return None


@lru_cache(maxsize=4096)
def parse_command(text: str) -> ShellCommand:
    """Read the main command of a line: the last of `a && b`, without `cd`, variables and output filters."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")] or [""]
    line = lines[0].strip()
    parts = [part.strip() for part in re.split(r"&&|;", line) if part.strip()] or [line]
    # `cd` and `export` only prepare what the line is about.
    mains = [part for part in parts if not re.match(r"(?:cd|export|source|set|\.)\s|(?:echo|true)\b", part)] or parts[
        -1:
    ]
    # Of several commands the test is the one that can be red or green.
    main = next((part for part in mains if _TEST.search(part)), mains[0])
    main = re.split(r"\s(?:\||2?>&?|&>|<<)", main)[0].strip()
    try:
        words = shlex.split(main)
    except ValueError:
        # Agents leave quotes open; the first words are right even so.
        words = main.split()
    while len(words) > 1 and (re.fullmatch(r"\w+=\S*", words[0]) or words[0] in _WRAPPERS or words[0].isdigit()):
        words = words[1:]
    return ShellCommand(text=main, program=words[0].rsplit("/", 1)[-1] if words else "", arguments=tuple(words[1:]))


def is_red(output: str) -> bool:
    """Return whether the output of tests or a build says that they failed."""
    return _RED.search(output) is not None


def is_green(output: str) -> bool:
    """Return whether the output of tests or a build says that they passed, and nothing failed."""
    # "3 passed, 1 failed" is both, and counts as red.
    return not is_red(output) and _GREEN.search(output) is not None
