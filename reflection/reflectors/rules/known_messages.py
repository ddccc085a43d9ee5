"""Messages of shells, interpreters and databases that have one cause, so that they tell by themselves what to do."""

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


def _ends_with_open_block(text: str) -> bool:
    return text.rstrip().endswith(":")


def _has_block_behind_another(text: str) -> bool:
    return any(_BLOCK_BEHIND.search(line) and line.rstrip()[-1:] != ":" for line in text.splitlines())


def _known(message: str, shown: Callable[[str], bool] | str, *words: str, repair: str = "") -> KnownMessage:
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
    _known(
        r"find: paths must precede expression|possible unquoted pattern after predicate",
        r"\bfind\b",
        "When about to run `find` with a pattern such as that of `-name`",
        "Put the pattern in quotes, and all paths before the first option: the shell expands a bare `*` itself.",
        "Leaving `*` in a pattern of `find` without quotes.",
    ),
    _known(
        r"find: missing argument to .?-(?:exec|ok)(?:dir)?",
        r"\bfind\b.{0,60}-(?:exec|ok)",
        "When about to run `find` with `-exec`",
        r"End the command of `-exec` with a space and `\;`, or with a space and `+`.",
    ),
    _known(
        r"xargs: unmatched (?:single|double) quote|xargs: unterminated quote",
        r"\bxargs\b",
        "When about to give the names of files to `xargs`",
        "Let `find` hand them over with `-exec … +` instead: names may hold quotes and spaces, which `xargs` splits.",
    ),
    _known(
        r"sed: .{0,40}(?:unknown option to .?s\b|unterminated .?s. command)",
        r"\bsed\b",
        "When about to run `sed` to replace a text that may contain `/`",
        "Choose a delimiter that is in neither text, as in `s|old|new|`, and close the command with it.",
    ),
    _known(
        r"cp: (?:-r not specified; )?omitting directory|cp: .{1,160} is a directory \(not copied\)",
        r"\bcp\b",
        "When about to copy a folder with `cp`",
        "Pass `-r`: without it `cp` leaves folders out.",
    ),
    _known(
        r"(?m)^e?grep: [^\n:]{1,160}: [Ii]s a directory",
        r"grep\b",
        "When about to run `grep` on a folder",
        "Pass `-r`: without it `grep` reads files only.",
    ),
    _known(
        r"(?m)^(?:cat|head|tail|sed|awk|wc|md5sum|sha\d{1,3}sum): [^\n]{1,160}: [Ii]s a directory",
        r"\b(?:cat|head|tail|sed|awk|wc|md5sum|sha\d{1,3}sum)\b",
        "When about to read a path that may be a folder",
        "List it with `ls` first, and read the files in it: programs that read text take no folders.",
    ),
    _known(
        r"mkdir: cannot create directory [^\n]{1,160}: No such file or directory",
        r"\bmkdir\b",
        "When about to create a folder inside one that may not exist yet",
        "Run `mkdir -p`, which creates the folders above it too.",
    ),
    _known(
        r"ambiguous redirect",
        r">",
        "When about to redirect output to a path that a variable or a pattern holds",
        'Put the path in double quotes, as in `> "$file"`, and let it name a single file.',
    ),
    _known(
        r"\[: (?:too many arguments|[^\n]{0,80}(?:(?:unary|binary) operator|integer expression) expected)",
        r"\[",
        "When about to compare a variable in the `[ ]` of a shell",
        'Put the variable in double quotes, as in `"$name"`, and give it a value first: it may be empty.',
    ),
    _known(
        r"\[: missing .?\]",
        r"\[",
        "When about to write a condition in the `[ ]` of a shell",
        "Leave a space after `[` and before `]`, and write `&&` between two conditions, each in its own `[ ]`.",
    ),
    _known(
        r"[Aa]rgument list too long",
        r"\*",
        "When about to pass the names of very many files to a program",
        "Let `find` hand them over with `-exec … +`, which starts the program as often as it has to.",
    ),
    _known(
        r"input device is not a TTY|[Ss]tdin is not a (?:tty|terminal)|must be run from a terminal"
        r"|terminal is required to read the password",
        r"\S",
        "When about to run a program that asks for a terminal",
        "Run it without one: leave out options such as `-t`, and pass what it would ask for as options or in a file.",
    ),
    _known(
        r"[Pp]lease tell me who you are",
        r"\bgit\b",
        "When about to run `git commit` in a new environment",
        "First set `user.name` and `user.email` with `git config`.",
    ),
    _known(
        r"externally-managed-environment",
        r"\bpip3?\b",
        "When about to run `pip install` in this environment",
        "Create a virtual environment with `python3 -m venv` first, and run the `pip` in it.",
    ),
    _known(
        r"unexpected EOF while looking for matching|[Uu]nterminated quoted string|unmatched ['\"`]"
        r"|No closing quotation",
        _has_open_quotes,
        "When about to send a shell a command with quotes inside quotes",
        "Close every quote that the command opens. Between single quotes no single quote can stand, not even after a "
        "backslash: put such a text in double quotes, or write it to a file first.",
        "Sending the command again with the same quotes.",
    ),
)

OF_CODE = (
    _known(
        r"SyntaxError|invalid syntax|syntax error",
        r"```",
        "When about to send code to a tool that runs it",
        "Send the code alone: no fences of backticks and no sentences around it.",
    ),
    _known(
        r"unexpected character after line continuation",
        r"\\n",
        "When about to send code of several lines to a tool that runs it",
        r"Separate the lines with real line breaks, not with a backslash and an `n`.",
    ),
    _known(
        r"expected an indented block|unexpected EOF while parsing|SyntaxError: invalid syntax",
        _ends_with_open_block,
        "When about to send `python` code that opens a block such as `def`, `for` or `if`",
        "Send the block whole, its indented lines included, in one call.",
    ),
    _known(
        r"SyntaxError: invalid syntax",
        _has_block_behind_another,
        "When about to send `python` code with a block inside a block or after another statement",
        "Give every block lines of its own: `python` takes no `for`, `if` or `def` behind a colon or semicolon.",
        "Writing a whole function in one line.",
    ),
    _known(
        r"ImportError: __import__ not found",
        r"\bimport\b",
        "When about to run `python` code with `import` in this environment",
        "Leave the import out: imports are switched off here. Use the names that are defined already, and write out "
        "what they lack.",
        "Importing the same or another module again.",
    ),
    _known(
        r"EOFError: EOF when reading a line",
        r"\binput\(",
        "When about to run code in a tool where no one types",
        "Put the values into the code, or read them from a file: `input()` finds nothing to read.",
    ),
    _known(
        r"can only concatenate str \(not \"\w{1,40}\"\) to str",
        r"\+",
        "When `python` code joins a text and a value of another type with `+`",
        "Turn the value into a text with `str()` first, or use an f-string.",
    ),
    _known(
        r"'(?:dict_keys|dict_values|dict_items|map|filter|zip|set|generator)' object is not subscriptable",
        r"\[",
        "When `python` code takes an entry by its number from `keys()`, `values()`, `map()`, `zip()` or a set",
        "Make a list of it with `list()` first: these have no entries with numbers.",
    ),
    _known(
        r"unhashable type: '(?:list|dict|set)'",
        r"\S",
        "When `python` code puts lists into a set, or uses them as keys of a dictionary",
        "Make a `tuple` of each list first: lists cannot be keys.",
        repair=r"\btuple\(|\bfrozenset\(",
    ),
    _known(
        r"Object of type \w{1,60} is not JSON serializable",
        r"\bjson\.dumps?\(",
        "When `python` code writes values other than texts, numbers, lists and dictionaries as JSON",
        "Convert them first, or pass `default=str` to `json.dumps`.",
    ),
    _known(
        r"'(?:float|numpy\.float\d{1,3})' object cannot be interpreted as an integer",
        r"/|float",
        "When `python` code passes the result of a division to `range()` or uses it as a number of an entry",
        "Divide with `//`, or convert the result with `int()`: `/` always gives a float.",
    ),
    _known(
        r"truth value of an? (?:Series|array|DataFrame)[^\n]{0,60} is ambiguous",
        r"\band\b|\bor\b|\bif\b|\bnot\b",
        "When `python` code combines conditions on columns of pandas or arrays of numpy",
        "Join them with `&`, `|` and `~`, each condition in parentheses; `and`, `or` and `if` take single values only.",
    ),
    _known(
        r"'utf-?8' codec can't decode|'charmap' codec can't decode|'ascii' codec can't decode",
        r"\bopen\(|read_csv|read_text|decode",
        "When `python` code reads a text file whose encoding is not known",
        "Pass `encoding` when opening it: the default does not fit every file.",
        repair=r"\bencoding ?=|\berrors ?=",
    ),
    _known(
        r"Expecting property name enclosed in double quotes",
        r"json\.loads?\(",
        "When `python` code parses a text with single quotes that looks like JSON",
        "Parse it with `ast.literal_eval`: it is written as `python`, not as JSON.",
        repair=r"literal_eval",
    ),
    _known(
        r"JSONDecodeError: Extra data",
        r"json\.loads?\(",
        "When `python` code parses a file that has one JSON object a line",
        "Parse it line by line, each line with `json.loads`.",
        repair=r"splitlines\(|readlines\(|for \w{1,40} in |lines ?= ?True",
    ),
    _known(
        r"await is only valid in async function|'await' outside (?:async )?function",
        r"\bawait\b",
        "When code uses `await`",
        "Put it into an async function and run that function: `await` works nowhere else here.",
    ),
    _known(
        r"Cannot use import statement outside a module",
        r"\bimport\b",
        "When about to run code for `node` with `import` in this environment",
        "Load modules with `require()`, or save the code in a file that ends in `.mjs`.",
    ),
    _known(
        r"require is not defined in ES module scope",
        r"\brequire\(",
        "When about to run code for `node` with `require()` in this environment",
        "Load modules with `import`, or save the code in a file that ends in `.cjs`.",
    ),
    _known(
        r"Every derived table must have its own alias|subquery in FROM must have an alias",
        r"\(\s{0,40}select\b",
        "When a query selects from another query in parentheses",
        "Give the inner query an alias, as in `FROM (SELECT …) AS t`.",
    ),
    _known(
        r"Invalid use of group function|misuse of aggregate|aggregate functions are not allowed in WHERE",
        r"\bwhere\b",
        "When a query compares `COUNT`, `SUM`, `MAX` or another aggregate",
        "Compare it in `HAVING`, or in a query of its own in parentheses: `WHERE` takes no aggregate.",
    ),
    _known(
        r"Subquery returns more than 1 row|more than one row returned by a subquery",
        r"\(\s{0,40}select\b",
        "When a query compares a value with another query by `=`",
        "Use `IN`, or let the inner query return a single row: it may find several.",
    ),
    _known(
        r"Operand should contain 1 column|sub-select returns \d{1,3} columns|subquery must return only one column",
        r"\(\s{0,40}select\b",
        "When a query uses another query as a value",
        "Let the inner query select one column only.",
    ),
    _known(
        r"do not have the same number of result columns|have a different number of columns"
        r"|each (?:UNION|INTERSECT|EXCEPT) query must have the same number",
        r"\b(?:union|intersect|except)\b",
        "When a query joins others with `UNION`, `INTERSECT` or `EXCEPT`",
        "Let all of them select the same number of columns.",
    ),
    _known(
        r"[Yy]ou can only execute one statement at a time|cannot insert multiple commands into a prepared statement",
        r";",
        "When several statements are to be run",
        "Send each of them in a call of its own: only one is taken at a time.",
    ),
    _known(
        r"doesn't yet support 'LIMIT & IN",
        r"\blimit\b",
        "When a query needs `LIMIT` inside `IN (…)`",
        "Join with the limited query instead: this database takes no `LIMIT` there.",
    ),
)
