"""`erl install`: the hooks and the MCP server of ERL in the settings of a coding agent."""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from erl_client.api import ERLError
from erl_client.coding_agents import AGENTS
from erl_client.coding_agents.json_text import END, BrokenText, find, insert, parse, remove
from erl_client.coding_agents.repositories import find_family, short_name
from erl_client.coding_agents.settings_files import (
    Change,
    Original,
    find_original,
    find_target,
    read_file,
    show_path,
    write_changes,
)
from erl_client.credentials import find_destination

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = None

_HOOKS = (("recall", 10), ("record", 30))  # with the seconds after which an agent ends a hook that hangs
BOM = "\ufeff"
PLUGIN_MARK = "// Written by `erl install opencode`"
PLUGIN = (
    PLUGIN_MARK
    + """: lessons before each prompt, and a record of each turn.
import { spawn } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

const command = COMMAND

function hook(name, payload, seconds) {
  return new Promise((resolve) => {
    const [program, ...words] = command.map((word) => (word === "HOOK" ? name : word))
    const child = spawn(program, words, { stdio: ["pipe", "pipe", "ignore"], timeout: seconds * 1000 })
    let text = ""
    child.on("error", () => resolve({}))
    child.stdin.on("error", () => {})
    child.stdout.on("data", (part) => (text += part))
    child.on("close", () => {
      try {
        resolve(JSON.parse(text || "{}"))
      } catch {
        resolve({})
      }
    })
    child.stdin.end(JSON.stringify(payload))
  })
}

export const ERL = async ({ client, directory }) => ({
  "chat.message": async (input, output) => {
    const prompt = output.parts
      .filter((part) => part.type === "text" && !part.synthetic)
      .map((part) => part.text)
      .join("\\n")
    const payload = { session_id: input.sessionID, hook_event_name: "chat.message", prompt, cwd: directory }
    const context = (await hook("recall", payload, 10)).hookSpecificOutput?.additionalContext
    const last = output.parts.findLast((part) => part.type === "text")
    if (context && last) {
      output.parts.push({ ...last, id: last.id + "erl", text: context, synthetic: true })
    }
  },
  event: async ({ event }) => {
    if (event.type !== "session.idle") return
    const id = event.properties.sessionID
    const folder = await mkdtemp(join(tmpdir(), "erl-"))
    try {
      const info = (await client.session.get({ path: { id } })).data
      const messages = (await client.session.messages({ path: { id } })).data
      const file = join(folder, "session.json")
      await writeFile(file, JSON.stringify({ info, messages }))
      await hook("record", { session_id: id, transcript_path: file, cwd: directory }, 30)
    } catch {
      // OpenCode goes on without a record
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
})
"""
)
BLOCK_BEGINS = "# >>> erl install codex >>>"
BLOCK_ENDS = "# <<< erl install codex <<<"
PASSED_ON = ("ERL_URL", "ERL_API_KEY", "XDG_CONFIG_HOME")  # to MCP servers by agents that clear their environment
_EVENTS = {
    "claude-code": ("UserPromptSubmit", "Stop", "SessionEnd"),
    "qwen-code": ("UserPromptSubmit", "Stop", "SessionEnd"),
    "gemini-cli": ("BeforeAgent", "AfterAgent", "SessionEnd"),
}
_OUR_HOOK = re.compile(r"\berl(?:\.exe)?[\"']? hook (?:recall|record)\b")
_MARK = re.compile(rf"^(?:{BLOCK_BEGINS}|{BLOCK_ENDS}(?:\r?\n|\Z))", re.MULTILINE)
_TABLE = re.compile(r"^(?=[ \t]*\[{1,2}[^\[\]\n]+\]{1,2}[ \t]*(?:#.*)?\r?$)", re.MULTILINE)
_OUR_TABLE = re.compile(r"\s*\[mcp_servers\.erl[\].]")
_GROUP = re.compile(r"\s*\[\[(hooks\.\w+)\]\]\s*\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """How hooks call this command, and for which task family."""

    agent: str
    program: str
    family: str

    def hook(self, name: str) -> str:
        words = [self.program, "hook", name, "--agent", self.agent]
        words += ["--family", self.family] if self.family else []
        return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)

    @property
    def mcp_arguments(self) -> list[str]:
        return ["mcp", "--family", self.family] if self.family else ["mcp", "--repository"]


Place = tuple[str | int, ...]
Edit = Callable[[str, "Setup | None"], str]
"""Returns a settings text with our entries as they should be, or without them where the set-up is None."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    install = commands.add_parser("install", help="let a coding agent ask for lessons and record its sessions")
    install.add_argument("agent", choices=AGENTS)
    scope = install.add_mutually_exclusive_group()
    scope.add_argument(
        "--project", type=Path, metavar="DIR", help="for the project in a folder, by default the current one"
    )
    scope.add_argument("--user", action="store_true", help="for all projects of this user")
    install.add_argument(
        "--family", help="the task family; if it is empty, or with --yes alone, the owner and name of the repository"
    )
    install.add_argument("--uninstall", action="store_true", help="remove what was added")
    install.add_argument("--yes", action="store_true", help="do not ask")
    install.set_defaults(command=_install)


def _install(options: argparse.Namespace) -> int:
    folder = None if options.user else (options.project or Path.cwd()).absolute()
    if folder and not folder.is_dir():
        raise ERLError(f"{folder} is not a folder.")
    setup = None
    if not options.uninstall:
        program = _program(shared=folder is not None)
        family = _ask_family(folder) if options.family is None and not options.yes else options.family or ""
        setup = Setup(agent=options.agent, program=program, family=family)
    files = _files(options.agent, folder)
    for path, _ in files:
        find_target(path, folder)
    changes = [change for path, edit in files if (change := _plan(path, edit, setup))]
    if not changes:
        print(f"Nothing to do: ERL is {'already' if setup else 'not'} set up for {options.agent}.")
        return 0
    print("\n".join(change.diff() for change in changes))
    if setup:
        print(_describe_family(setup.family, folder))
    if not options.yes and input("Write these changes? [y/N] ").strip().lower() not in ("y", "yes"):
        print("Nothing was written.")
        return 1
    write_changes(changes)
    for change in changes:
        print(f"{'Wrote' if change.after is not None else 'Removed'} {show_path(change.path)}")
    if setup and any(
        _OUR_HOOK.search(_text(path)) for path, _ in _files(options.agent, None if folder else Path.cwd())
    ):
        print(f"Lessons will be given twice: there are also hooks for {'all projects' if folder else 'this project'}.")
    if setup and options.agent == "codex":
        print("Codex runs new hooks only after you trust them: type /hooks in Codex.")
    if setup and not find_destination().api_key:
        print("Run `erl login` next: without a key the hooks do nothing.")
    return 0


def _ask_family(folder: Path | None) -> str:
    """Ask for the task family, and return "" for that of the repository."""
    usual = find_family(str(folder)) if folder else "the owner and name of each repository"
    print("Lessons are given only in the task family in which they were learnt. Use one project for each customer.")
    family = input(f"Task family [{usual}]: ").strip()
    return "" if family == usual else family


def _describe_family(family: str, folder: Path | None) -> str:
    """Say to which task family runs and lessons will belong."""
    if family or folder is None:
        return f"Task family: {family or 'the owner and name of each repository'}."
    found = find_family(str(folder))
    return (
        f"Task family: {found}. This repository gets no lessons of other families. (Before 1.0 the family was called "
        f"{short_name(found)}, like that of any repository with this name; `--family` keeps a name.)"
    )


def _files(agent: str, folder: Path | None) -> list[tuple[Path, Edit]]:
    """Return the settings files of an agent, for a project or else for the user."""
    home = Path.home()
    if agent == "codex":
        root = folder / ".codex" if folder else Path(os.environ.get("CODEX_HOME") or home / ".codex")
        return [(root / "config.toml", _edit_codex)]
    if agent == "cursor":
        root = (folder or home) / ".cursor"
        return [(root / "hooks.json", _edit_cursor_hooks), (root / "mcp.json", _edit_mcp)]
    if agent in ("gemini-cli", "qwen-code"):
        root = (folder or home) / (".gemini" if agent == "gemini-cli" else ".qwen")
        return [(root / "settings.json", _edit_hooks_and_mcp)]
    if agent == "opencode":
        configured = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
        root = folder / ".opencode" if folder else configured
        return [(root / "plugins" / "erl.js", _edit_plugin), ((folder or configured) / "opencode.json", _edit_opencode)]
    if folder:
        return [(folder / ".claude" / "settings.json", _edit_grouped_hooks), (folder / ".mcp.json", _edit_mcp)]
    moved = os.environ.get("CLAUDE_CONFIG_DIR")
    root = Path(moved) if moved else home / ".claude"
    state = root / ".claude.json" if moved else home / ".claude.json"
    return [(root / "settings.json", _edit_grouped_hooks), (state, _edit_mcp)]


def _plan(path: Path, edit: Edit, setup: Setup | None) -> Change | None:
    """Return what is to be written, None where there is nothing to do. Raises ERLError."""
    before = read_file(path)
    original = find_original(path, before)
    try:
        text, bom = _decode(before)
        if setup and before is not None and edit(text, setup) == text:
            return None
        if original is None:
            bare = None if before is None else (bom + edit(text, None)).encode()
            original = Original(content=bare)
        text, bom = _decode(original.content)
        after = (bom + edit(text, setup)).encode() if setup else original.content
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ERLError(f"{path}, line {line}: this is not UTF-8. Nothing was written.") from None
    except BrokenText as error:
        raise ERLError(f"{path}, {error} Nothing was written.") from None
    return None if before == after else Change(path=path, before=before, after=after, original=original)


def _text(path: Path) -> str:
    return (read_file(path) or b"").decode("utf-8", "replace")


def _decode(content: bytes | None) -> tuple[str, str]:
    """Return a text and the mark of its encoding, as editors on Windows write it."""
    text = (content or b"").decode("utf-8")
    return text.removeprefix(BOM), BOM if text.startswith(BOM) else ""


def _edit_grouped_hooks(text: str, setup: Setup | None) -> str:
    wanted = {}
    if setup:
        unit = 1000 if setup.agent == "gemini-cli" else 1
        for event, (name, seconds) in zip(_EVENTS[setup.agent], (*_HOOKS, _HOOKS[1]), strict=True):
            command = setup.hook(name)
            wanted[event] = command, {"hooks": [{"type": "command", "command": command, "timeout": seconds * unit}]}
    return _edit_hooks(text, wanted)


def _edit_hooks_and_mcp(text: str, setup: Setup | None) -> str:
    return _edit_mcp(_edit_grouped_hooks(text, setup), setup)


def _server(setup: Setup) -> dict[str, Any]:
    server: dict[str, Any] = {"command": setup.program, "args": setup.mcp_arguments}
    if setup.agent == "gemini-cli":  # keeps keys from its servers unless they are named
        server["env"] = {name: f"${{{name}:-}}" for name in PASSED_ON}
    return server


def _edit_plugin(text: str, setup: Setup | None) -> str:
    """Return the plugin through which OpenCode calls the hooks, in a file of its own."""
    if text.strip() and not text.startswith(PLUGIN_MARK):
        raise BrokenText("line 1: this plugin is not ERL's.")
    if setup is None:
        return ""
    words = [setup.program, "hook", "HOOK", "--agent", setup.agent]
    words += ["--family", setup.family] if setup.family else []
    return PLUGIN.replace("COMMAND", json.dumps(words))


def _edit_cursor_hooks(text: str, setup: Setup | None) -> str:
    if setup is None:
        return _edit_hooks(text, {})
    commands = {"sessionStart": setup.hook("recall"), "stop": setup.hook("record")}
    edited = _edit_hooks(text, {event: (command, {"command": command}) for event, command in commands.items()})
    return edited if "version" in parse(edited).children else insert(edited, ("version",), 1)


def _edit_hooks(text: str, wanted: dict[str, tuple[str, dict[str, Any]]]) -> str:
    """Return a text whose hooks of ours are the wanted ones: for each event the command, and the entry with it."""
    present = _find_our_hooks(_started(text))
    if sorted((path[1], command) for path, command in present) == sorted(
        (e, command) for e, (command, _) in wanted.items()
    ):
        return text
    text = _started(text)
    for path, _ in reversed(present):
        text = _remove_with_empty_parents(text, path)
    for event, (_, entry) in wanted.items():
        text = insert(text, ("hooks", event, END), entry)
    return text


def _find_our_hooks(text: str) -> list[tuple[Place, str]]:
    """Return the paths of the hooks that are ours, in order, and their commands."""
    found = []
    hooks = parse(text).children.get("hooks")
    for event, entries in hooks.children.items() if hooks else ():
        for number, entry in entries.children.items():
            path: Place = ("hooks", event, number)
            inner = entry.children.get("hooks")
            group = (
                {(*path, "hooks", place): hook for place, hook in inner.children.items()} if inner else {path: entry}
            )
            for place, hook in group.items():
                command = hook.value.get("command") if isinstance(hook.value, dict) else None
                if isinstance(command, str) and _OUR_HOOK.search(command):
                    found.append((place, command))
    return found


def _edit_mcp(text: str, setup: Setup | None) -> str:
    return _edit_servers(text, setup, "mcpServers", _server)


def _edit_opencode(text: str, setup: Setup | None) -> str:
    return _edit_servers(
        text, setup, "mcp", lambda setup: {"type": "local", "command": [setup.program, *setup.mcp_arguments]}
    )


def _edit_servers(text: str, setup: Setup | None, key: str, entry: Callable[[Setup], dict[str, Any]]) -> str:
    """Return a text whose server of the name erl is ours, or without it."""
    started = _started(text)
    servers = parse(started).children.get(key)
    present = servers.children.get("erl") if servers else None
    value = present.value if present and isinstance(present.value, dict) else {}
    command = value.get("command")
    words = [*(command if isinstance(command, list) else [command]), *(value.get("args") or ())]
    is_ours = words[1:2] == ["mcp"] and Path(str(words[0])).stem == "erl"
    if setup is None:
        return _remove_with_empty_parents(text, (key, "erl")) if is_ours else text
    if present and not is_ours:
        line = text.count("\n", 0, present.begin) + 1
        raise BrokenText(f"line {line}: another MCP server already has the name erl.")
    wanted = {**value, **entry(setup)}
    if value == wanted:
        return text
    return insert(_remove_with_empty_parents(text, (key, "erl")) if present else started, (key, "erl"), wanted)


def _remove_with_empty_parents(text: str, path: Place) -> str:
    """Take a value away, and what holds nothing without it."""
    text, path = remove(text, path), path[:-1]
    while path:
        parent = find(text, path)
        if parent is None or (parent.children and parent.children.keys() != {"matcher"}):
            break
        text, path = remove(text, path), path[:-1]
    return text


def _started(text: str) -> str:
    return text if text.strip() else "{}\n"


def _edit_codex(text: str, setup: Setup | None) -> str:
    blocks, others, at = list(_find_our_blocks(text)), "", 0
    for begin, end in blocks:
        others += text[at:begin] + _find_others(text[begin:end])
        at = end
    others += text[at:]
    if setup is None:
        return others
    newline = "\r\n" if "\r\n" in text else "\n"
    block = _codex_block(setup).replace("\n", newline)
    if blocks and text[slice(*blocks[0])].strip() == block.strip():
        return text
    gap = newline if others and not others.endswith("\n") else ""
    edited = others + gap + block
    if others.strip():
        _check_toml(others, "")
        _check_toml(edited, "With ERL's entries, the file would be broken: ")
    return edited


def _find_our_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the parts between our marks begin and end, with these."""
    begin = -1
    for mark in _MARK.finditer(text):
        if begin < 0 and mark[0] == BLOCK_BEGINS:
            begin = mark.start()
        elif begin >= 0 and mark[0] != BLOCK_BEGINS:
            yield begin, mark.end()
            begin = -1


def _find_others(block: str) -> str:
    """Return the tables between our marks that are not ours: Codex adds its own there when ours stand last."""
    inside = block.removeprefix(BLOCK_BEGINS).rpartition(BLOCK_ENDS)[0]
    tables = _TABLE.split(inside.lstrip("\r\n"))
    kept = [table for table in tables if not _OUR_TABLE.match(table) and not _OUR_HOOK.search(table)]
    groups = [_GROUP.match(table) for table in kept]
    following = [*kept[1:], ""]
    return "".join(
        table
        for table, group, after in zip(kept, groups, following, strict=True)
        if not group or after.lstrip().startswith(f"[[{group[1]}.")  # a group without hooks does nothing
    )


def _codex_block(setup: Setup) -> str:
    lines = [BLOCK_BEGINS]
    for event, (name, seconds) in zip(("UserPromptSubmit", "Stop"), _HOOKS, strict=True):
        lines += [f"[[hooks.{event}]]", f"[[hooks.{event}.hooks]]", 'type = "command"']
        lines += [f"command = {json.dumps(setup.hook(name), ensure_ascii=False)}", f"timeout = {seconds}", ""]
    lines += [
        "[mcp_servers.erl]",
        f"command = {json.dumps(setup.program, ensure_ascii=False)}",
        f"args = {json.dumps(setup.mcp_arguments, ensure_ascii=False)}",
        f"env_vars = {json.dumps(PASSED_ON)}",
        BLOCK_ENDS,
        "",
    ]
    return "\n".join(lines)


def _check_toml(text: str, what: str) -> None:
    if tomllib is None:
        raise ERLError("Python 3.10 cannot check the settings of Codex. Install erl-client with a newer Python.")
    try:
        tomllib.loads(text)
    except ValueError as error:
        line = re.search(r"line (\d+)", str(error))
        raise BrokenText(f"line {line[1] if line else text.count(chr(10)) + 1}: {what}{error}.") from None


def _program(*, shared: bool) -> str:
    """Return how an agent calls this command: by its name where a project shares its settings, else by its path."""
    on_path = shutil.which("erl")
    running = Path(sys.argv[0]).absolute()
    if running.stem != "erl" or not running.exists():
        if on_path is None:
            raise ERLError("The command erl is not on the PATH, so agents could not call it.")
        running = Path(on_path).absolute()
    is_same = on_path is not None and Path(on_path).resolve() == running.resolve()
    return "erl" if shared and is_same else str(running)
