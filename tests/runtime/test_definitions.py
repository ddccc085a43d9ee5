"""Tools and agents in a Python file: read, checked, never run."""

from pathlib import Path

import pytest

from runtime.definitions.checks import check_tool
from runtime.definitions.export import write_file
from runtime.definitions.python_file import read_definitions
from runtime.errors import InvalidArguments, InvalidDefinition
from runtime.schema import bind_arguments, check_arguments
from tests.runtime.shop import SHOP

HEAD = "from runtime.definitions import agent, block, http_tool, rule, tool\n"


def faults_of(text: str) -> str:
    with pytest.raises(InvalidDefinition) as raised:
        read_definitions(HEAD + text)
    return str(raised.value)


def check_all(text: str) -> None:
    tools = read_definitions(text).tools
    known = {tool.name: tool.parameters for tool in tools}
    for tool in tools:
        check_tool(tool, known=known)


def test_schema_comes_from_signature_and_docstring() -> None:
    refund_order = next(tool for tool in read_definitions(SHOP).tools if tool.name == "refund_order")

    assert refund_order.description == "Refund an order after checking its total."
    assert refund_order.parameters == {
        "type": "object",
        "properties": {
            "order_id": {"type": "string", "description": "As on the invoice, with its letter."},
            "reason": {"type": "string", "default": "", "description": "Why."},
            "share": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
        },
        "required": ["order_id"],
        "additionalProperties": False,
    }


def test_source_of_a_tool_has_what_it_uses_and_no_more() -> None:
    _, refund, refund_order = read_definitions(SHOP).tools

    assert refund.source.startswith('LARGEST = 500.0\n\n\ndef refund(order_id: str, amount: float) -> str:\n    """Pay')
    assert "# as printed on the invoice" in refund_order.source
    assert refund_order.source.startswith("import re\nLARGEST = 500.0\n")
    assert "PERSONA" not in refund_order.source


def test_agent_names_its_tools_rules_and_blocks() -> None:
    (support,) = read_definitions(SHOP).agents

    assert support.tools == ("get_order", "refund_order", "send_message")
    assert support.rules[1] == {"type": "requires_approval", "tool": "refund_order", "when": "args.share > 0.5"}
    assert (support.blocks[0].value, support.blocks[1].limit) == ("You work for a shop.\nBe brief.", 500)
    assert support.system == support.blocks[0].value


def test_types_and_examples_of_the_shop_hold() -> None:
    check_all(SHOP)


def test_written_file_defines_the_same() -> None:
    read = read_definitions(SHOP)

    again = read_definitions(write_file(read.tools, read.agents))

    assert again == read
    assert [tool.sha256 for tool in again.tools] == [tool.sha256 for tool in read.tools]


def test_file_is_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = f"def write():\n    open({str(mark)!r}, 'w')\n\nDONE = write()\n"

    assert "line 5: write is not known" in faults_of(text)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def broken(:\n", "line 2: This is not Python"),
        ("for i in range(3):\n    pass\n", "line 2: Only imports, functions"),
        ("@tool()\ndef f(a):\n    'Say.'\n", "line 3: a has no type"),
        ("@tool()\ndef f(a: set[int]):\n    'Say.'\n", "line 3: The type set[int] cannot be expressed in JSON"),
        ("@tool()\ndef f(a: dict[int, str]):\n    'Say.'\n", "line 3: JSON objects have string keys"),
        ("@tool()\ndef f(a: int = 'x'):\n    'Say.'\n", "line 3: The default does not have the declared type"),
        ("@tool()\ndef f(*a: int):\n    'Say.'\n", "line 3: f takes *args"),
        ("@tool()\ndef f(a: int):\n    return a\n", "line 3: f needs a docstring"),
        (
            "@tool()\ndef f():\n    '''Say.\n\n    Args:\n        b: No.\n    '''\n",
            "describes b, which is no parameter",
        ),
        ("@tool(kind='harmless')\ndef f():\n    'Say.'\n", "kind is one of pure, local, idempotent, unsafe"),
        ("@tool(uses='x')\ndef f():\n    'Say.'\n", "uses is a list"),
        ("@tool(colour=1)\ndef f():\n    'Say.'\n", "colour is unknown"),
        ("@cache\ndef f():\n    'Say.'\n", "line 2: The only decorator offered is @tool"),
        ("async def f(): pass\n", "write def in place of async def"),
        ("agent('a', system=open('x').read())\n", "line 2: open('x').read() has to be a literal"),
        ("agent('a', tools=[f])\n", "line 2: f is no tool of this file"),
        ("agent('a', rules=[rule.be_nice('x')])\n", "There is no rule be_nice"),
        ("agent('a', rules=['x'])\n", "A rule is written as"),
        ("agent(system='x')\n", "name is missing"),
        ("agent('a', name='b')\n", "name is given twice"),
    ],
)
def test_fault_is_named_with_its_line(text: str, said: str) -> None:
    assert said in faults_of(text)


def test_every_fault_is_named() -> None:
    text = "for i in range(3): pass\n@tool()\ndef f(a, b: set):\n    'Say.'\n"

    assert [line.partition(":")[0] for line in faults_of(text).splitlines()] == ["line 2", "line 4", "line 4"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    return len(a)\n", "line 6: f: Argument to function len is incorrect"),
        ("    return delete(a)\n", "line 6: f: Name delete used when not defined"),
        ("    return 'x' * a\n", "line 6: f: Return type does not match"),
        ("    return g(a, 1)\n", "line 6: f: Too many positional arguments to function g"),
        ("    return a + 2\n", "line 4: Example 1 of f answers 3, and not 2"),
        ("    return a // 0\n", "line 6: Example 1 of f fails: ZeroDivisionError"),
        ("    b: int = g(str(a))\n    return b\n", "the example does not say what g answers"),
    ],
)
def test_types_and_examples_are_checked(body: str, said: str) -> None:
    text = HEAD + "\n@tool(uses=['g'], examples=[({'a': 1}, 2)])\ndef f(a: int) -> int:\n    'Say.'\n" + body
    text = text.replace("    'Say.'", "    'Say.'")
    (tool,) = read_definitions(text).tools
    known = {"g": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}}

    with pytest.raises(InvalidDefinition) as raised:
        check_tool(tool, known=known)
    assert said in str(raised.value)


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "size": {"enum": ["s", "m"], "default": "s"},
        "counts": {"type": "array", "items": {"type": "integer"}},
        "more": {"anyOf": [{"type": "object", "additionalProperties": {"type": "number"}}, {"type": "null"}]},
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "name is missing."),
        ({"name": 1}, "name should be a string."),
        ({"name": "x", "size": "xl"}, "size should be one of 's', 'm'."),
        ({"name": "x", "counts": [1, True]}, "counts[1] should be a whole number."),
        ({"name": "x", "more": {"a": "b"}}, "more should be an object or null."),
        ({"name": "x", "colour": 1}, "colour is unknown."),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidArguments) as raised:
        check_arguments(SCHEMA, arguments)
    assert said in str(raised.value)


def test_arguments_of_a_host_call_get_their_names() -> None:
    assert bind_arguments(SCHEMA, ["x"], {"counts": [1], "more": {"a": 1.5}}) == {
        "name": "x",
        "counts": [1],
        "more": {"a": 1.5},
    }
    with pytest.raises(InvalidArguments, match="name was given twice"):
        bind_arguments(SCHEMA, ["x"], {"name": "y"})
