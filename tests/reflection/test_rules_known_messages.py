"""Messages with one cause, options that a program lacks, and tools without access: what real programs answer."""

from pathlib import Path
from typing import Any

import pytest

from reflection.reflectors.rules.detectors import (
    RuleMatch,
    changed_argument,
    changed_command,
    closed_tool,
    guessed_name,
    known_message,
    refused_option,
    repaired_code,
    unknown_name,
)
from reflection.reflectors.rules.known_code_messages import OF_CODE
from reflection.reflectors.rules.known_messages import OF_COMMANDS, KnownMessage
from reflection.reflectors.rules.known_tool_messages import OF_TOOLS
from reflection.reflectors.rules.wording import is_general
from tests.reflection.real_programs import python, shell, sql
from tests.reflection.rules_runs import call, view


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.txt").write_text("one\n")
    (tmp_path / "b.txt").write_text("two\n")
    (tmp_path / "c.txt").write_text("three\n")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "guideline"),
    [
        ("find . -name *.txt", "Put the pattern in quotes"),
        ("find . -exec cat {}", r"End the command of `-exec` with a space and `\;`"),
        ("cp src copy", "Pass `-r`: without it `cp`"),
        ("grep one src", "Pass `-r`: without it `grep`"),
        ("cat src", "List it with `ls` first"),
        ("mkdir x/y", "Run `mkdir -p`"),
        ("echo it's", "Close every quote that the command opens."),
        ("sed 's/src/a/b/c/' b.txt", "Choose a delimiter"),
        ("echo one > $none", "Put the path in double quotes"),
        ("[ one -eq 1 ] && echo same", "Put the variable in double quotes"),
        ('echo "it\'s" | xargs echo', "Let `find` hand them over"),
    ],
)
def test_message_of_a_shell_that_has_one_cause_is_the_lesson(command: str, guideline: str, folder: Path) -> None:
    (finding,) = known_message.find(view(shell(command, folder), shell("ls", folder)))

    assert finding.guideline.startswith(guideline)


def test_message_of_a_shell_after_which_nothing_worked_is_no_lesson(folder: Path) -> None:
    assert known_message.find(view(shell("cp src copy", folder))) == []


@pytest.mark.parametrize(
    ("code", "guideline"),
    [
        ("```python\nprint(1)\n```", "Send the code alone"),
        ("x = 1\\nprint(x)", "Separate the lines with real line breaks"),
        ("def f(x):", "Send the block whole"),
        ("def f(x): for y in x: print(y)", "Give every block lines of its own"),
        ("print(input())", "Put the values into the code"),
        ("print('a' + 1)", "Turn the value into a text"),
        ("print({'a': 1}.keys()[0])", "Make a list of it"),
        ("import json\nprint(json.dumps({1, 2}))", "Convert them first"),
        ("print(list(range(4 / 2)))", "Divide with `//`"),
    ],
)
def test_message_of_python_that_has_one_cause_is_the_lesson(code: str, guideline: str) -> None:
    (finding,) = known_message.find(view(python(code)))

    assert finding.guideline.startswith(guideline)


@pytest.mark.parametrize(
    ("query", "guideline"),
    [
        ("SELECT customer_id FROM invoice WHERE SUM(total) > 1", "Compare it in `HAVING`"),
        ("SELECT 1 WHERE 1 IN (SELECT 1, 2)", "Let the inner query select one column only"),
        ("SELECT 1 UNION SELECT 1, 2", "Let all of them select the same number"),
        ("SELECT 1; SELECT 2", "Send each of them in a call of its own"),
    ],
)
def test_message_of_a_database_that_has_one_cause_is_the_lesson(query: str, guideline: str) -> None:
    (finding,) = known_message.find(view(sql(query)))

    assert finding.guideline.startswith(guideline)


UNHASHABLE = "print({[1], [2]})"


def test_message_with_several_causes_needs_the_repair() -> None:
    repaired = view(python(UNHASHABLE), python("print({tuple([1]), tuple([2])})"))

    assert known_message.find(view(python(UNHASHABLE), python("print([1])"))) == []
    assert [finding.guideline[:14] for finding in known_message.find(repaired)] == ["Make a `tuple`"]


@pytest.mark.parametrize(
    ("command", "answer", "guideline"),
    [
        ("git log", "fatal: not a git repository (or any of the parent directories): .git", "Change into the folder"),
        ("git log", "fatal: detected dubious ownership in repository at '/a'", "First run `git config --global"),
        (
            "git checkout a",
            "error: Your local changes to the following files would be overwritten by checkout:\n\ta",
            "Commit the changes first",
        ),
        ("git push", " ! [rejected] main -> main (fetch first)\nerror: failed to push some refs", "First take over"),
        ("git push", "error: src refspec main does not match any", "Commit something first"),
        ("git commit -m a", 'no changes added to commit (use "git add" and/or "git commit -a")', "Name the changes"),
        ("apt-get install jq", "E: Unable to locate package jq", "Run `apt-get update` first"),
        ("node a.js", "Error: listen EADDRINUSE: address already in use :::3000", "Choose another port"),
        ("npm test", "npm error enoent Could not read package.json: Error: ENOENT", "Change into the folder"),
        ("npm run a", 'npm error Missing script: "a"', "List the scripts"),
        ("npm install", "npm ERR! code ERESOLVE", "Choose versions that fit"),
        ("make all", "make: *** No rule to make target 'all'.  Stop.", "Look for the folder with the makefile"),
        (
            "go build",
            "go: go.mod file not found in current directory or any parent directory",
            "Change into the folder",
        ),
        (
            "python a/b.py",
            "ImportError: attempted relative import with no known parent package",
            "Run it as `python -m`",
        ),
        ("jq .a b.json", 'jq: error (at b.json:1): Cannot index array with "a"', "Look at the structure first"),
        ("tar xzf a.gz", "gzip: stdin: not in gzip format", "Ask `file` first"),
        ("curl a.org", "curl: (6) Could not resolve host: a.org", "Do without: there is no network here."),
        ("pytest", "Error: Command timed out after 120s", "Give it less to do"),
    ],
)
def test_message_of_a_program_that_has_one_cause_is_the_lesson(command: str, answer: str, guideline: str) -> None:
    (finding,) = known_message.find(view(call("bash", answer, command=command), call("bash", "ok", command="ls -l a")))

    assert finding.guideline.startswith(guideline)


def test_message_of_a_shell_with_which_a_failed_run_ended_twice_is_the_lesson() -> None:
    answer = "curl: (6) Could not resolve host: a.org"

    (finding,) = known_message.find(view(*(call("bash", answer, command=f"curl a.org/{page}") for page in "ab")))

    assert finding.avoid == "Trying other addresses or mirrors."


@pytest.mark.parametrize(
    ("code", "answer", "guideline"),
    [
        ("import os", "InterpreterError: Import of os is not allowed. Authorized imports are: ['re']", "Import only"),
        ("open('a')", "InterpreterError: Forbidden function evaluation: 'open' is not among", "Call only the tools"),
        ("asyncio.run(a())", "RuntimeError: asyncio.run() cannot be called from a running event loop", "Write `await`"),
        (
            "a.b.str.len()",
            "AttributeError: Can only use .str accessor with string values!",
            "Turn the column into text",
        ),
        (
            "a = b.dt.year",
            "AttributeError: Can only use .dt accessor with datetimelike values",
            "Turn the column into time",
        ),
        ("a = a.append(b)", "AttributeError: 'DataFrame' object has no attribute 'append'", "Use `pd.concat()`"),
        ("np.float(a)", "AttributeError: module 'numpy' has no attribute 'float'.", "Write `float`"),
        ("a.corr()", "ValueError: could not convert string to float: 'red'", "Choose the columns with numbers"),
        (
            "a = b - c",
            "TypeError: Cannot subtract tz-naive and tz-aware datetime-like objects.",
            "Give all of them a zone",
        ),
        ("m.fit(a, b)", "ValueError: Input X contains NaN.", "Fill or drop the missing values"),
        ("a[a.b.str.contains('c')]", "ValueError: Cannot mask with non-boolean array containing NA", "Pass `na=False`"),
        ("a = pd.read_csv('b')", "ParserError: Error tokenizing data. C error: Expected 3 fields", "Look at its first"),
        ("plt.show()", "TclError: no display name and no $DISPLAY environment variable", "Run it without a screen"),
        (
            "a = b['c']",
            "TypeError: string indices must be integers, not 'str'",
            "Look at its type first: this is a text",
        ),
        (
            "a = b['c']",
            "TypeError: list indices must be integers or slices, not str",
            "Look at its type first: this is",
        ),
        ("re.search('a', b).group()", "AttributeError: 'NoneType' object has no attribute 'group'", "Check first"),
        ("for a in b: b.pop(a)", "RuntimeError: dictionary changed size during iteration", "Go through a copy"),
        ("page.click('a')", "Error: strict mode violation: locator('a') resolved to 2 elements", "Name the element"),
        ("SELECT YEAR(a) FROM b", "Error: no such function: YEAR", "Use `strftime()`"),
        (
            "SELECT a FROM b",
            "ERROR: current transaction is aborted, commands ignored until end",
            "Send `ROLLBACK` first",
        ),
        (
            "SELECT round(a, 2) FROM b",
            "ERROR: function round(double precision, integer) does not exist",
            "Convert the number",
        ),
        ("SELECT a FROM b LIMIT 3", "Error: Incorrect syntax near 'LIMIT'.", "Write `SELECT TOP`"),
        ("SELECT c.a FROM b", 'ERROR: missing FROM-clause entry for table "c"', "Use exactly the aliases"),
        ("SELECT a FROM b", "ERROR 1046 (3D000): No database selected", "Choose the database"),
        ("SELECT a / b FROM c", "ERROR: division by zero", "Wrap the divisor in `NULLIF`"),
        ("CREATE TABLE a (b int)", "ERROR: cannot execute CREATE TABLE in a read-only transaction", "Only read"),
    ],
)
def test_message_of_a_library_that_has_one_cause_is_the_lesson(code: str, answer: str, guideline: str) -> None:
    (finding,) = known_message.find(view(call("run_code", answer, code=code)))

    assert finding.guideline.startswith(guideline)


def test_message_that_a_file_holds_is_no_lesson(folder: Path) -> None:
    (folder / "log").write_text("cp: -r not specified; omitting directory 'src'\n")

    assert known_message.find(view(shell("cat log", folder))) == []


@pytest.mark.parametrize("known", [*OF_COMMANDS, *OF_CODE, *OF_TOOLS], ids=lambda known: known.trigger)
def test_words_of_known_messages_are_general(known: KnownMessage) -> None:
    assert all(is_general(text) for text in (known.trigger, known.guideline, known.avoid))


@pytest.mark.parametrize(
    ("steps", "guideline"),
    [
        (("find . -named a.txt", "find . -name a.txt"), "Use `-name` instead: `find` has no `-named` here."),
        (("sort --sorted b.txt", "sort b.txt"), "Leave `--sorted` out: `sort` does not have it here."),
        (("wc -q b.txt", "wc b.txt"), "Leave `-q` out: `wc` does not have it here."),
    ],
)
def test_option_that_a_program_lacks_is_the_lesson(steps: tuple[str, ...], guideline: str, folder: Path) -> None:
    (finding,) = refused_option.find(view(*(shell(command, folder) for command in steps)))

    assert finding.guideline.startswith(guideline)


def test_letter_inside_a_word_of_options_is_no_lesson(folder: Path) -> None:
    assert refused_option.find(view(shell("wc -lq b.txt", folder))) == []


def test_script_that_may_not_be_executed_is_given_to_its_interpreter(folder: Path) -> None:
    (folder / "build.sh").write_text("echo built\n")

    (finding,) = changed_command.find(view(shell("./build.sh", folder), shell("bash ./build.sh", folder)))

    assert finding.guideline.startswith("Give it to its interpreter, here `bash`")


@pytest.mark.parametrize(
    ("codes", "guideline"),
    [
        (("print(math.sqrt(4))",), "Write `import math` in the same code first"),
        (("print(Counter('aab'))",), "Write `from collections import Counter` in the same code first"),
        (("rows = [1]\nprint(rows)", "print(rows)"), "Define or load it again in the same code"),
        (("import pandaz", "import pandaz\nprint(1)"), "Do without `pandaz`"),
    ],
)
def test_exception_that_was_never_repaired_tells_what_is_sure(codes: tuple[str, ...], guideline: str) -> None:
    (finding,) = repaired_code.find(view(*map(python, codes)))

    assert finding.guideline.startswith(guideline)


def test_name_that_nothing_explains_is_no_lesson() -> None:
    assert repaired_code.find(view(python("print(total)"))) == []


def test_arguments_with_which_a_test_calls_a_function_are_the_lesson() -> None:
    error = "TypeError: area() takes 1 positional argument but 2 were given"

    (finding,) = repaired_code.find(view(call("submit", error, code="def area(side):\n    return side * side")))

    assert finding.guideline.startswith("Give the function exactly the arguments")


NOT_SUBSCRIBED = '{"error": "You are not subscribed to this API.", "response": ""}'
NO_KEY = '{"message": "Invalid API key", "status_code": 401}'


def closed(*steps: dict[str, Any], **fields: Any) -> list[str]:
    return [_first_words(finding) for finding in closed_tool.find(view(*steps, **fields))]


def _first_words(finding: RuleMatch) -> str:
    return finding.guideline.partition(":")[0]


def test_tool_without_access_is_replaced_by_one_that_worked() -> None:
    other = call("find_flights", {"flights": []}, city="Lisbon")

    assert closed(call("search_flights", NOT_SUBSCRIBED, city="Lisbon"), other) == ["Use `find_flights` instead"]


def test_key_that_is_refused_for_all_arguments_closes_the_tool() -> None:
    steps = [call("get_weather", NO_KEY, city=city) for city in ("Lisbon", "Porto")]

    assert closed(*steps) == ["Use another tool, or say that this cannot be had here"]


@pytest.mark.parametrize(
    ("steps", "tools"),
    [
        ((call("get_weather", NO_KEY, city="Lisbon"),), ()),  # perhaps the city
        ((call("get_weather", NO_KEY, city="Lisbon"), call("get_weather", {"rain": 1}, city="Porto")), ()),
        (tuple(call("get_weather", NO_KEY, city=city) for city in ("Lisbon", "Porto")), ("login",)),
    ],
)
def test_tool_that_may_work_is_not_closed(steps: tuple[dict[str, Any], ...], tools: tuple[str, ...]) -> None:
    assert closed(*steps, tools=tools) == []


def test_tool_with_a_misspelt_name_is_named() -> None:
    run = view(call("get_wheather", "Error: unknown tool get_wheather"), tools=("get_weather", "book_flight"))

    (finding,) = unknown_name.find(run)

    assert finding.guideline == "Call `get_weather` instead: there is no tool `get_wheather` here."


def test_file_that_a_search_found_elsewhere_is_the_lesson(folder: Path) -> None:
    (finding,) = guessed_name.find(
        view(shell("cat a.txt", folder), shell("find . -name a.txt", folder), shell("cat ./src/a.txt", folder))
    )

    assert finding.guideline == "First list the paths with `find`, then copy them from its answer."


def test_path_that_a_lookup_returned_is_the_lesson() -> None:
    run = view(
        call("read_file", "Error: file not found", path="src/app.py"),
        call("search_files", "src/web/app.py", pattern="app"),
        call("read_file", "import os", path="src/web/app.py"),
    )

    (finding,) = changed_argument.find(run)

    assert finding.guideline.startswith("First call `search_files` and copy `path` from its answer.")
