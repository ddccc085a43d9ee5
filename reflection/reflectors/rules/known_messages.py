"""Messages of shells and programs that have one cause, so that they tell by themselves what to do."""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass

MAX_CODE_CHARS = 4000

_BLOCK_BEHIND = re.compile(r"[:;] {0,8}(?:for|while|if|def|with|try|class)\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownMessage:
    """A message, what the code that it answers must show besides, and the lesson.

    `shown` says whether the code has what the message is about. `repair` is what the code that ran has and the failing
    code has not, for messages that have other causes too; None if there are none.
    """

    message: re.Pattern[str]
    shown: Callable[[str], bool]
    trigger: str
    guideline: str
    avoid: str = ""
    repair: re.Pattern[str] | None = None


def _has(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda text: compiled.search(text) is not None


def _has_open_quotes(text: str) -> bool:
    try:
        shlex.split(text)
    except ValueError:
        return True
    return False


def ends_with_open_block(text: str) -> bool:
    return text.rstrip().endswith(":")


def has_block_behind_another(text: str) -> bool:
    return any(_BLOCK_BEHIND.search(line) and line.rstrip()[-1:] != ":" for line in text.splitlines())


def known(message: str, shown: Callable[[str], bool] | str, *words: str, repair: str = "") -> KnownMessage:
    trigger, guideline, avoid = (*words, "")[:3]
    return KnownMessage(
        message=re.compile(message),
        shown=_has(shown) if isinstance(shown, str) else shown,
        trigger=trigger,
        guideline=guideline,
        avoid=avoid,
        repair=re.compile(repair) if repair else None,
    )


OF_COMMANDS = (
    known(
        r"find: paths must precede expression|possible unquoted pattern after predicate",
        r"\bfind\b",
        "When about to run `find` with a pattern such as that of `-name`",
        "Put the pattern in quotes, and all paths before the first option: the shell expands a bare `*` itself.",
        "Leaving `*` in a pattern of `find` without quotes.",
    ),
    known(
        r"find: missing argument to .?-(?:exec|ok)(?:dir)?",
        r"\bfind\b.{0,60}-(?:exec|ok)",
        "When about to run `find` with `-exec`",
        r"End the command of `-exec` with a space and `\;`, or with a space and `+`.",
    ),
    known(
        r"xargs: unmatched (?:single|double) quote|xargs: unterminated quote",
        r"\bxargs\b",
        "When about to give the names of files to `xargs`",
        "Let `find` hand them over with `-exec … +` instead: names may hold quotes and spaces, which `xargs` splits.",
    ),
    known(
        r"sed: .{0,40}(?:unknown option to .?s\b|unterminated .?s. command)",
        r"\bsed\b",
        "When about to run `sed` to replace a text that may contain `/`",
        "Choose a delimiter that is in neither text, as in `s|old|new|`, and close the command with it.",
    ),
    known(
        r"cp: (?:-r not specified; )?omitting directory|cp: .{1,160} is a directory \(not copied\)",
        r"\bcp\b",
        "When about to copy a folder with `cp`",
        "Pass `-r`: without it `cp` leaves folders out.",
    ),
    known(
        r"(?m)^e?grep: [^\n:]{1,160}: [Ii]s a directory",
        r"grep\b",
        "When about to run `grep` on a folder",
        "Pass `-r`: without it `grep` reads files only.",
    ),
    known(
        r"(?m)^(?:cat|head|tail|sed|awk|wc|md5sum|sha\d{1,3}sum): [^\n]{1,160}: [Ii]s a directory",
        r"\b(?:cat|head|tail|sed|awk|wc|md5sum|sha\d{1,3}sum)\b",
        "When about to read a path that may be a folder",
        "List it with `ls` first, and read the files in it: programs that read text take no folders.",
    ),
    known(
        r"mkdir: cannot create directory [^\n]{1,160}: No such file or directory",
        r"\bmkdir\b",
        "When about to create a folder inside one that may not exist yet",
        "Run `mkdir -p`, which creates the folders above it too.",
    ),
    known(
        r"ambiguous redirect",
        r">",
        "When about to redirect output to a path that a variable or a pattern holds",
        'Put the path in double quotes, as in `> "$file"`, and let it name a single file.',
    ),
    known(
        r"\[: (?:too many arguments|[^\n]{0,80}(?:(?:unary|binary) operator|integer expression) expected)",
        r"\[",
        "When about to compare a variable in the `[ ]` of a shell",
        'Put the variable in double quotes, as in `"$name"`, and give it a value first: it may be empty.',
    ),
    known(
        r"\[: missing .?\]",
        r"\[",
        "When about to write a condition in the `[ ]` of a shell",
        "Leave a space after `[` and before `]`, and write `&&` between two conditions, each in its own `[ ]`.",
    ),
    known(
        r"[Aa]rgument list too long",
        r"\*",
        "When about to pass the names of very many files to a program",
        "Let `find` hand them over with `-exec … +`, which starts the program as often as it has to.",
    ),
    known(
        r"input device is not a TTY|[Ss]tdin is not a (?:tty|terminal)|must be run from a terminal"
        r"|terminal is required to read the password",
        r"\S",
        "When about to run a program that asks for a terminal",
        "Run it without one: leave out options such as `-t`, and pass what it would ask for as options or in a file.",
    ),
    known(
        r"[Pp]lease tell me who you are",
        r"\bgit\b",
        "When about to run `git commit` in a new environment",
        "First set `user.name` and `user.email` with `git config`.",
    ),
    known(
        r"externally-managed-environment",
        r"\bpip3?\b",
        "When about to run `pip install` in this environment",
        "Create a virtual environment with `python3 -m venv` first, and run the `pip` in it.",
    ),
    known(
        r"unexpected EOF while looking for matching|[Uu]nterminated quoted string|unmatched ['\"`]"
        r"|No closing quotation",
        _has_open_quotes,
        "When about to send a shell a command with quotes inside quotes",
        "Close every quote that the command opens. Between single quotes no single quote can stand, not even after a "
        "backslash: put such a text in double quotes, or write it to a file first.",
        "Sending the command again with the same quotes.",
    ),
    known(
        r"fatal: not a git repository",
        r"\bgit\b",
        "When about to run `git` in this environment",
        "Change into the folder of the repository first, or name it with `git -C`.",
    ),
    known(
        r"detected dubious ownership in repository",
        r"\bgit\b",
        "When about to run `git` in a repository that belongs to another user",
        "First run `git config --global --add safe.directory` with the folder of the repository.",
    ),
    known(
        r"local changes to the following files would be overwritten",
        r"\bgit\b",
        "When about to switch branches, merge or pull with changes that are not committed",
        "Commit the changes first, or put them aside with `git stash`.",
    ),
    known(
        r"\((?:fetch first|non-fast-forward)\)|tip of your current branch is behind",
        r"\bgit push\b",
        "When about to run `git push` on a branch that others push to",
        "First take over what the others pushed with `git pull --rebase`.",
        "Pushing with `--force`.",
    ),
    known(
        r"src refspec \S{1,80} does not match any",
        r"\bgit push\b",
        "When about to run `git push` in a new repository",
        "Commit something first, and look up the branch's name with `git branch`.",
    ),
    known(
        r"no changes added to commit",
        r"\bgit\b.{0,60}\bcommit\b",
        "When about to run `git commit`",
        "Name the changes with `git add` first.",
    ),
    known(
        r"E: Unable to locate package|has no installation candidate",
        r"\bapt(?:-get)?\b",
        "When about to run `apt-get install` in a new environment",
        "Run `apt-get update` first: without it the names of packages are not known.",
    ),
    known(
        r"EADDRINUSE|[Aa]ddress already in use|port is already allocated",
        r"\S",
        "When about to start a server in this environment",
        "Choose another port, or first stop the process that holds this one; `lsof -i` names it.",
    ),
    known(
        r"ENOENT[^\n]{0,80}package\.json|Could not read package\.json",
        r"\b(?:npm|npx|yarn|pnpm)\b",
        "When about to run `npm` in this environment",
        "Change into the folder that has the `package.json` first.",
    ),
    known(
        r"npm (?:ERR!|error) Missing script",
        r"\bnpm\b",
        "When about to start a script with `npm run`",
        "List the scripts with `npm run` alone first, and copy the name from its answer.",
    ),
    known(
        r"npm (?:ERR!|error) (?:code )?ERESOLVE",
        r"\bnpm\b",
        "When about to run `npm install` in this project",
        "Choose versions that fit those in `package.json`; if none do, pass `--legacy-peer-deps`.",
    ),
    known(
        r"No rule to make target|No targets specified and no makefile found",
        r"\bmake\b",
        "When about to run `make` in this environment",
        "Look for the folder with the makefile first, and copy the target's name from it.",
    ),
    known(
        r"go: (?:go\.mod file not found|cannot find main module)|could not find [`']?Cargo\.toml",
        r"\b(?:go|cargo)\b",
        "When about to build with `go` or `cargo`",
        "Change into the folder that has the `go.mod` or `Cargo.toml` first.",
    ),
    known(
        r"attempted relative import with no known parent package",
        r"\bpython3?\b",
        "When about to run a module of a package as a script",
        "Run it as `python -m` with its dotted name, in the folder above the package.",
    ),
    known(
        r"jq: error[^\n]{0,40}: Cannot (?:index|iterate over)",
        r"\bjq\b",
        "When about to read members of JSON with `jq` whose structure no answer has shown",
        "Look at the structure first, with `jq keys` or `jq type`; go through a list with `.[]`.",
    ),
    known(
        r"not in gzip format",
        r"\b(?:tar|gzip|gunzip|zcat)\b",
        "When about to unpack a file by the ending of its name",
        "Ask `file` first what it really is: a download may hold an error page instead.",
    ),
    known(
        r"[Cc]ould not resolve host|[Tt]emporary failure in name resolution|[Nn]etwork is unreachable",
        r"\S",
        "When about to download something or to install a package in this environment",
        "Do without: there is no network here. Use what is installed, and say what could not be fetched.",
        "Trying other addresses or mirrors.",
    ),
    known(
        r"[Cc]ommand timed out|EXECUTION TIMED OUT|[Tt]imed out after \d|timeout: sending signal",
        r"\S",
        "When about to run a command that may take long or wait for input",
        "Give it less to do, or let it run in the background with its output in a file; pass options that keep it "
        "from asking, such as `-y`.",
        "Sending the same command again and waiting.",
    ),
)
