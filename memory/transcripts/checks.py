"""Read from the shell commands of a run how it ended: the last tests, or a commit."""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from .log import Json

_SHELLS = frozenset(
    {"bash", "shell", "exec_command", "local_shell", "shell_command", "run_terminal_cmd", "run_terminal_command"}
)
# What may stand before the program that tests: words, and pairs of words
_WRAPPERS = frozenset({"sudo", "env", "time", "nice", "npx", "bunx"})
_WRAPPING_PAIRS = frozenset(
    {("bundle", "exec")}
    | {(program, way) for program in ("pnpm", "yarn") for way in ("exec", "dlx")}
    | {(program, "run") for program in ("poetry", "pipenv", "hatch", "pdm", "rye", "uv", "coverage")}
)
_TAKING_OPTIONS = frozenset({("uv", "run"), ("coverage", "run")})
_VARIABLE = re.compile(r"\w+=")
_PYTHON = re.compile(r"\S*python[\d.]*")
_TESTS = re.compile(
    r"(?:pytest|py\.test|unittest|tox|nox|jest|vitest|mocha|rspec|phpunit|ctest|gotestsum"
    r"|cargo (?:nextest|test)|(?:go|deno|swift|dotnet|mix|bazel|flutter) test|make (?:check|test)"
    r"|(?:npm|pnpm|yarn|bun) (?:run )?(?:test|t)(?:[:\w-]*)|mvnw? (?:.* )?(?:test|verify)"
    r"|gradlew? (?:.* )?(?:test|check)|(?:\S*python[\d.]* )?\S*manage\.py test)(?= |$)"
)
_TESTS_NOTHING = frozenset({"--version", "--help", "--collect-only", "--co"})
_COMMIT = re.compile(r"git(?: -[cC] \S+)* commit\b")
_COMMITS_NOTHING = ("--dry-run", "--help")
_COMMITTED = re.compile(r"^\[[^\]\n]+ [0-9a-f]{7,40}\]", re.MULTILINE)
_EXIT_CODE = re.compile(r"(?:[Ee]xit code:? |exited with code |\"exit_code\": ?)(\d+)")
_NOT_RUN_CODES = frozenset({124, 126, 127, 130, 137, 143})  # time-outs, missing programs, signals
_NOT_RUN = re.compile(r"doesn't want to|interrupted|timed out|denied|rejected|approval|not allowed|in the background")
_RUNS_ON = re.compile(r"running in (?:the )?background|Process running with session")
_SAID_FAILED = re.compile(
    r"\b[1-9]\d* (?:failed|failures?|failing|errors?)\b|\b(?:failures|errors)=[1-9]|^FAIL(?:ED)?\b|test result: FAILED",
    re.MULTILINE,
)
_SAID_PASSED = re.compile(r"\b[1-9]\d* (?:passed|passing)\b|^(?:OK|PASS|PASSED)\b|^ok\s|test result: ok", re.MULTILINE)
_COMMAND_CHARS = 2_000  # of a command that are looked at
_HEAD_CHARS = 400
_TAIL_CHARS = 4_000


def judge(steps: Iterable[Mapping[str, Any]]) -> tuple[str, str]:
    """Return outcome and outcome source: of the last tests, else of a commit; "" and "" where neither can be seen."""
    passed: bool | None = None
    committed = False
    for step in steps:
        action = step["action"]
        parts = _split(_command(action)) if action else []
        tests = [number for number, (text, _) in enumerate(parts) if _runs_tests(text)]
        if tests:
            passed = _passed(step, [operator for _, operator in parts[tests[-1] :] if operator])
        if any(_commits(text) for text, _ in parts):
            committed = committed or _committed(step, parts)
    if passed is not None:
        return ("success" if passed else "failure"), "test"
    return ("success", "agent") if committed else ("", "")


def _command(action: Mapping[str, Json]) -> str:
    """Return the shell command that an action is, "" for any other action."""
    arguments = action["arguments"]
    if str(action["name"]).lower() not in _SHELLS or not isinstance(arguments, Mapping):
        return ""
    inner = arguments.get("action")
    if isinstance(inner, Mapping):  # Codex's local shell
        arguments = inner
    command = arguments.get("command", arguments.get("cmd"))
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return command[2] if len(command) > 2 and command[1] in ("-c", "-lc") else shlex.join(command)
    return command if isinstance(command, str) and not arguments.get("run_in_background") else ""


def _split(command: str) -> list[tuple[str, str]]:
    """Return the commands in a line of shell, each with the operator behind it; [] where it cannot be read."""
    plain = re.sub(r"^[^\S\n]*#.*$", "", command.replace("\\\n", " "), flags=re.MULTILINE).strip()
    lexer = shlex.shlex(re.sub(r"\d?>&\d|&>", " > ", plain), posix=True, punctuation_chars=";|&\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    parts: list[tuple[str, str]] = []
    words: list[str] = []
    try:
        for word in lexer:
            if word and set(word) <= set(";|&\n"):
                parts.append((" ".join(words), word.strip() or ";"))
                words = []
            else:
                words.append(word)
    except ValueError:
        return []
    pipefail = "pipefail" in command
    parts.append((" ".join(words), ""))
    return [
        (" ".join(text[:_COMMAND_CHARS].split()), "&&" if operator == "|" and pipefail else operator)
        for text, operator in parts
    ]


def _runs_tests(command: str) -> bool:
    words = command.split(" ")
    return _TESTS_NOTHING.isdisjoint(words) and any(_TESTS.match(command, at) for at in _programs(words))


def _commits(command: str) -> bool:
    says_nothing = any(option in command for option in _COMMITS_NOTHING)
    return not says_nothing and any(_COMMIT.match(command, at) for at in _programs(command.split(" ")))


def _programs(words: list[str]) -> Iterator[int]:
    """Yield where in a command the name of its program may begin, behind what starts it. Looks at each word once.

    One cannot tell the value of an option of `uv run` from the program: both are tried.
    """
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))
    words = [*words, "", ""]
    waiting, seen = [(0, False)], set()
    while waiting:
        number, takes_options = waiting.pop()
        if (number, takes_options) in seen or number >= len(starts) - 1:
            continue
        seen.add((number, takes_options))
        word, following = words[number], words[number + 1]
        if takes_options and word.startswith("-"):
            waiting.append((number + 1, True))
            if following and not following.startswith("-"):
                waiting.append((number + 2, True))
            continue
        yield starts[number] + word.rfind("/") + 1
        if word in _WRAPPERS or _VARIABLE.match(word):
            waiting.append((number + 1, False))
        elif word == "timeout" or (following == "-m" and _PYTHON.fullmatch(word)):
            waiting.append((number + 2, False))
        elif (word, following) in _WRAPPING_PAIRS:
            waiting.append((number + 2, (word, following) in _TAKING_OPTIONS))


def _exit_code(step: Mapping[str, Any]) -> int | None:
    """Return the exit code of a command, None where it did not run or is not over."""
    text = (step["error"] or step["observation"])[:_HEAD_CHARS]
    if not text or _RUNS_ON.search(text):
        return None
    if found := _EXIT_CODE.search(text):
        code = int(found[1])
        return None if code in _NOT_RUN_CODES else code
    if not step["error"]:
        return 0
    return None if _NOT_RUN.search(text) else 1


def _passed(step: Mapping[str, Any], operators: list[str]) -> bool | None:
    """Tell whether tests passed: by the exit code where it is theirs, else by what they printed."""
    code = _exit_code(step)
    if code is None:
        return None
    if not operators or (code == 0 and set(operators) == {"&&"}):
        return code == 0
    said = (step["error"] or step["observation"])[-_TAIL_CHARS:]
    if _SAID_FAILED.search(said):
        return False
    return True if _SAID_PASSED.search(said) else None


def _committed(step: Mapping[str, Any], parts: list[tuple[str, str]]) -> bool:
    code = _exit_code(step)
    if code is None:
        return False
    operators = {operator for _, operator in parts if operator}
    return bool(_COMMITTED.search(step["observation"])) or (code == 0 and operators <= {"&&"})
