"""Read tools and agents from a Python file. The file is parsed and never run.

What may stand in it: imports, functions, constants, `@tool(…)` on functions, and calls of `agent`, `http_tool`, `block`
and `rule.…`, whose arguments are written out. A tool's source is its function with the functions, constants and imports
of the file that it uses.
"""

import ast
from dataclasses import dataclass, field
from typing import Any

from runtime.definitions.docstrings import read_docstring
from runtime.definitions.values import AgentDefinition, BlockDefinition, Example, ToolDefinition
from runtime.errors import Fault, InvalidDefinition
from runtime.models.tools import ToolKind, ToolRuntime
from runtime.schema import find_schema_faults, read_schema

MODULE = "runtime.definitions"
_MODULE_BEFORE = "agents.definitions"  # in files written for 0.2
MAX_FILE_CHARS = 1_000_000
# The arguments of each rule after the tool, by position
RULES: dict[str, tuple[str, ...]] = {
    "run_first": (),
    "exit_loop": (),
    "continue_loop": (),
    "constrain_child_tools": ("children",),
    "parent_last_tool": ("children",),
    "conditional": ("outcomes", "default", "require_outcome"),
    "max_count_per_step": ("count",),
    "max_count_per_run": ("count",),
    "required_before_exit": (),
    "requires_approval": ("when",),
    "always_allow": ("revision",),
}
_TOOL_MEMBERS = ("uses", "kind", "examples", "limits", "runtime", "requires_approval")
_HTTP_MEMBERS = ("name", "description", "parameters", "request", "kind", "requires_approval")
_AGENT_MEMBERS = (
    "name",
    "description",
    "system",
    "model",
    "window_tokens",
    "max_output_tokens",
    "temperature",
    "model_settings",
    "blocks",
    "tools",
    "rules",
    "limits",
    "compaction",
)
_BLOCK_MEMBERS = ("label", "value", "description", "limit", "policy", "read_only")


@dataclass(frozen=True, slots=True)
class Definitions:
    """What a file defines."""

    tools: tuple[ToolDefinition, ...]
    agents: tuple[AgentDefinition, ...]


def read_definitions(text: str) -> Definitions:
    """Return what a Python file defines.

    Raises:
        InvalidDefinition: with every fault that was found, and its line.
    """
    if len(text) > MAX_FILE_CHARS or "\x00" in text:
        raise InvalidDefinition([Fault(f"A file has at most {MAX_FILE_CHARS:,} characters, and none is U+0000.")])
    try:
        module = ast.parse(text)
    except SyntaxError as error:
        raise InvalidDefinition([Fault(f"This is not Python: {error.msg}.", error.lineno)]) from None
    except (RecursionError, MemoryError):
        raise InvalidDefinition([Fault("The file is nested too deeply.")]) from None
    reader = _Reader(text)
    for statement in module.body:
        reader.take(statement)
    if reader.faults:
        raise InvalidDefinition(sorted(reader.faults, key=lambda fault: fault.line or 0))
    return Definitions(tuple(reader.tools.values()), tuple(reader.agents))


@dataclass
class _Reader:
    text: str
    faults: list[Fault] = field(default_factory=list)
    tools: dict[str, ToolDefinition] = field(default_factory=dict)
    agents: list[AgentDefinition] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # variables of http tools: the tool's name
    shared: dict[str, ast.stmt] = field(default_factory=dict)  # what tools may use, by name
    ours: set[str] = field(default_factory=set)  # names imported from agents.definitions

    def take(self, node: ast.stmt) -> None:
        """Read one statement of the file."""
        try:
            self._take(node)
        except InvalidDefinition as error:
            self.faults += error.faults

    def _take(self, node: ast.stmt) -> None:
        # `_gather` takes whole lines out of the file.
        if node.col_offset:
            raise _fault("Write one statement on a line.", node)
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                return
            case ast.ImportFrom(module=module, names=names) if module in (MODULE, _MODULE_BEFORE):
                self.ours |= {alias.asname or alias.name for alias in names}
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                for alias in names:
                    self.shared[(alias.asname or alias.name).partition(".")[0]] = node
            case ast.FunctionDef() if node.decorator_list:
                self._take_tool(node)
            case ast.FunctionDef() | ast.ClassDef():
                self.shared[node.name] = node
            case ast.AsyncFunctionDef():
                raise _fault("A tool is a plain function: write def in place of async def.", node)
            case ast.Expr(value=ast.Call() as call):
                self._take_call(call, "")
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                self._take_call(call, name)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._take_constant(name, value, node)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._take_constant(name, value, node)
            case _:
                raise _fault(
                    "Only imports, functions, constants, tools and agents can stand here; the file is never run.",
                    node,
                )

    def _take_constant(self, name: str, value: ast.expr, node: ast.stmt) -> None:
        self.constants[name] = self._literal(value)
        self.shared[name] = node

    def _take_call(self, call: ast.Call, name: str) -> None:
        match self._called(call):
            case "agent":
                read = self._read_agent(call)
                if read.name in {agent.name for agent in self.agents}:
                    raise _fault(f"There are two agents called {read.name}.", call)
                self.agents.append(read)
            case "http_tool":
                self._add(tool := self._read_http_tool(call), call)
                self.names[name] = tool.name
            case _:
                raise _fault(
                    f"{ast.unparse(call.func)} is not known. Call agent(…) or http_tool(…), imported from {MODULE}.",
                    call,
                )

    def _called(self, call: ast.Call) -> str:
        return call.func.id if isinstance(call.func, ast.Name) and call.func.id in self.ours else ""

    def _add(self, tool: ToolDefinition, node: ast.AST) -> None:
        if tool.name in self.tools:
            raise _fault(f"There are two tools called {tool.name}.", node)
        self.tools[tool.name] = tool

    # ── Tools ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take_tool(self, node: ast.FunctionDef) -> None:
        members = self._read_decorator(node)
        description, words = read_docstring(ast.get_docstring(node) or "")
        if not description:
            raise _fault(f"{node.name} needs a docstring that says what it does; the model reads it.", node)
        if unknown := sorted(words.keys() - {item.arg for item in [*node.args.args, *node.args.kwonlyargs]}):
            raise _fault(f"The docstring describes {unknown[0]}, which is no parameter of {node.name}.", node)
        uses = members.get("uses", [])
        if not isinstance(uses, list) or not all(isinstance(name, str) and name.isidentifier() for name in uses):
            raise _fault('uses is a list of names of tools: uses=["get_order"].', node)
        source, lines = self._gather(node)
        self._add(
            ToolDefinition(
                name=node.name,
                description=description,
                parameters=read_schema(node, words),
                source=source,
                uses=tuple(uses),
                kind=_choice(members, "kind", ToolKind, ToolKind.UNSAFE, node),
                runtime=_choice(members, "runtime", ToolRuntime, ToolRuntime.MONTY, node),
                examples=tuple(_read_example(item, node) for item in _sequence(members, "examples", node)),
                limits=_mapping(members, "limits", node),
                requires_approval=members.get("requires_approval", False) is True,
                lines=lines,
            ),
            node,
        )

    def _read_decorator(self, node: ast.FunctionDef) -> dict[str, Any]:
        decorator = node.decorator_list[0]
        # `@tool` is read like `@tool()`.
        call = decorator if isinstance(decorator, ast.Call) else ast.Call(func=decorator, args=[], keywords=[])
        ast.copy_location(call, decorator)
        if len(node.decorator_list) > 1 or self._called(call) != "tool":
            raise _fault(f"The only decorator offered is @tool, imported from {MODULE}.", decorator)
        return self._members(call, (), _TOOL_MEMBERS)

    def _gather(self, node: ast.FunctionDef) -> tuple[str, tuple[int, ...]]:
        """Return the source of a tool with what it uses of the file, and the lines where it stands there.

        The order follows from names and not from the file, so that the same tool in another file has the same source.
        """
        statements: dict[int, ast.stmt] = {}
        self._find_used(node, statements, set())
        written = self.text.splitlines()
        source: list[str] = []
        lines: list[int] = []
        for statement in sorted(statements.values(), key=_rank):
            # A function begins at its `def`: decorators are no part of the source.
            first, last = statement.lineno, statement.end_lineno or statement.lineno
            gap = 2 if source and isinstance(statement, ast.FunctionDef | ast.ClassDef) else 0
            source += [""] * gap + [line.rstrip() for line in written[first - 1 : last]]
            lines += [first] * gap + [*range(first, last + 1)]
        return "\n".join(source) + "\n", tuple(lines)

    def _find_used(self, node: ast.stmt, found: dict[int, ast.stmt], seen: set[int]) -> None:
        """Add a statement after all that it uses."""
        if id(node) in seen:
            return
        seen.add(id(node))
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        for name in sorted(names & self.shared.keys()):
            self._find_used(self.shared[name], found, seen)
        found[id(node)] = node

    def _read_http_tool(self, call: ast.Call) -> ToolDefinition:
        members = self._members(
            call, ("name",), _HTTP_MEMBERS, required=("name", "description", "parameters", "request")
        )
        if faults := find_schema_faults(members["parameters"]):
            raise _fault(faults[0], call)
        return ToolDefinition(
            name=_text(members, "name", call),
            description=_text(members, "description", call),
            parameters=members["parameters"],
            request=_mapping(members, "request", call),
            runtime=ToolRuntime.HTTP,
            kind=_choice(members, "kind", ToolKind, ToolKind.UNSAFE, call),
            requires_approval=members.get("requires_approval", False) is True,
        )

    # ── Agents ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read_agent(self, call: ast.Call) -> AgentDefinition:
        special = ("blocks", "tools", "rules")
        members = self._members(call, ("name",), _AGENT_MEMBERS, required=("name",), leave=special)
        blocks, tools, rules = (self._items(members.pop(name, None), name) for name in special)
        for name in ("name", "description", "system", "model"):
            if name in members:
                _text(members, name, call)
        return AgentDefinition(
            blocks=tuple(self._read_block(item) for item in blocks),
            tools=tuple(self._read_tool_name(item) for item in tools),
            rules=tuple(self._read_rule(item) for item in rules),
            line=call.lineno,
            rule_lines=tuple(item.lineno for item in rules),
            block_lines=tuple(item.lineno for item in blocks),
            **members,
        )

    def _items(self, node: ast.expr | None, name: str) -> list[ast.expr]:
        if node is None:
            return []
        if not isinstance(node, ast.List | ast.Tuple):
            raise _fault(f"{name} is a list.", node)
        return list(node.elts)

    def _read_block(self, node: ast.expr) -> BlockDefinition:
        if not isinstance(node, ast.Call) or self._called(node) != "block":
            raise _fault('A block is written as block("label", "value").', node)
        return BlockDefinition(**self._members(node, ("label", "value"), _BLOCK_MEMBERS, required=("label",)))

    def _read_tool_name(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            name = self.names.get(node.id, node.id)
            if name not in self.tools:
                raise _fault(f"{name} is no tool of this file. Write the name of another tool as a text.", node)
            return name
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        raise _fault("A tool is named by its function, or by its name as a text.", node)

    def _read_rule(self, node: ast.expr) -> dict[str, Any]:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="rule"), attr=kind)) if "rule" in self.ours:
                pass
            case _:
                raise _fault('A rule is written as rule.run_first("get_user").', node)
        if kind not in RULES:
            raise _fault(f"There is no rule {kind}. The rules are {', '.join(RULES)}.", node)
        members = ("tool", *RULES[kind])
        return {"type": kind, **self._members(node, members, members, required=("tool",))}

    # ── Arguments ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _members(
        self,
        call: ast.Call,
        positions: tuple[str, ...],
        known: tuple[str, ...],
        *,
        required: tuple[str, ...] = (),
        leave: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        """Return the arguments of a call by name; those in `leave` are not read."""
        if len(call.args) > len(positions):
            raise _fault(f"{ast.unparse(call.func)} takes {len(positions)} arguments without a name.", call)
        given = dict(zip(positions, call.args, strict=False))
        for keyword in call.keywords:
            if keyword.arg not in known:
                raise _fault(f"{keyword.arg or '**'} is unknown. The arguments are {', '.join(known)}.", keyword.value)
            if keyword.arg in given:
                raise _fault(f"{keyword.arg} is given twice.", keyword.value)
            given[keyword.arg] = keyword.value
        for name in required:
            if name not in given:
                raise _fault(f"{name} is missing.", call)
        return {name: node if name in leave else self._literal(node) for name, node in given.items()}

    def _literal(self, node: ast.expr) -> Any:
        """Return a value that is written out; names stand for constants, functions for tools."""
        match node:
            case ast.Name(id=name) if name in self.constants:
                return self.constants[name]
            case ast.Name(id=name) if name in self.tools or name in self.names:
                return self.names.get(name, name)
            case ast.List(elts=items):
                return [self._literal(item) for item in items]
            case ast.Tuple(elts=items):
                return tuple(self._literal(item) for item in items)
            case ast.Dict(keys=keys, values=values) if None not in keys:
                try:
                    return {
                        self._literal(key): self._literal(value) for key, value in zip(keys, values, strict=True) if key
                    }
                except TypeError:
                    raise _fault("JSON objects have string keys.", node) from None
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, MemoryError, RecursionError):
            text = ast.unparse(node)
            raise _fault(f"{text[:100]} has to be a literal; the file is read and never run.", node) from None


def _rank(node: ast.stmt) -> tuple[int, str]:
    """Imports come first, then constants, then functions; a sort keeps what is used before what uses it."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return 0, ast.unparse(node)
    return (2, "") if isinstance(node, ast.FunctionDef | ast.ClassDef) else (1, "")


def _read_example(each: Any, node: ast.AST) -> Example:
    match each:
        case (dict() as arguments, answer):
            return Example(arguments=arguments, answer=answer)
        case (dict() as arguments, answer, dict() as host):
            return Example(arguments=arguments, answer=answer, host=host)
    raise _fault('An example is ({"argument": …}, answer), with a third item for what host functions answer.', node)


def _choice(members: dict[str, Any], name: str, choices: Any, default: str, node: ast.AST) -> str:
    value = members.get(name, default)
    if value not in choices.values:
        raise _fault(f"{name} is one of {', '.join(choices.values)}.", node)
    return str(value)


def _text(members: dict[str, Any], name: str, node: ast.AST) -> str:
    if not isinstance(members[name], str):
        raise _fault(f"{name} is a text.", node)
    return str(members[name])


def _sequence(members: dict[str, Any], name: str, node: ast.AST) -> list[Any] | tuple[Any, ...]:
    value = members.get(name, [])
    if not isinstance(value, list | tuple):
        raise _fault(f"{name} is a list.", node)
    return value


def _mapping(members: dict[str, Any], name: str, node: ast.AST) -> dict[str, Any]:
    value = members.get(name, {})
    if not isinstance(value, dict):
        raise _fault(f"{name} is a dict.", node)
    return value


def _fault(message: str, node: ast.AST) -> InvalidDefinition:
    return InvalidDefinition([Fault(message, getattr(node, "lineno", None))])
