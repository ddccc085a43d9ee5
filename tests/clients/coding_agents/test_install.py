"""`erl install` and `--uninstall`: only our entries come and go, and every other byte stays."""

import json
import os
import stat
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from erl_client.api import ERLError
from erl_client.cli import main
from erl_client.coding_agents.settings_files import Change, Original, write_changes

from tests.clients.coding_agents.conftest import Command

AGENTS = ["claude-code", "codex", "cursor", "gemini-cli", "opencode", "qwen-code"]
FILES = {
    "claude-code": [".claude/settings.json", ".mcp.json"],
    "codex": [".codex/config.toml"],
    "cursor": [".cursor/hooks.json", ".cursor/mcp.json"],
    "gemini-cli": [".gemini/settings.json"],
    "opencode": [".opencode/plugins/erl.js", "opencode.json"],
    "qwen-code": [".qwen/settings.json"],
}
OTHERS_HOOKS = """{
  "permissions": {"allow": ["Bash(ls:*)"], "deny": []},
  "hooks": {
    "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
    "UserPromptSubmit": []
  },
  "unknown key": {"ä": 1.50}
}
"""
CURSORS_HOOKS = '{"version": 1, "hooks": {"stop": [{"command": "./audit.sh"}], "afterFileEdit": []}}'
SERVERS = '{\n    // mine\n    "mcpServers": {\n        "files": {"command": "files-mcp"}, // reads\n    }\n}\n'
TOML = '# my settings\nmodel = "gpt-5.2-codex"  # the best\n\n[mcp_servers.files]\ncommand = "files-mcp"\n'
HOOKS_TOML = TOML + '\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "say done"\n'

Erl = Callable[..., int]
Said = pytest.CaptureFixture[str]


@pytest.fixture
def erl(command: Command, monkeypatch: pytest.MonkeyPatch) -> Erl:
    """Return what runs the command in this process, in the project's folder."""
    monkeypatch.chdir(command.folder)
    monkeypatch.setenv("ERL_API_KEY", "erl_live_x")
    return lambda *arguments: main([*arguments, "--yes"])


def write(folder: Path, name: str, content: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode())
    return file


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() if file.is_file() else b"" for file in folder.rglob("*")}


def commands(value: Any) -> list[str]:
    """Return all commands of hooks that are ours, in order."""
    if isinstance(value, list):
        return [found for item in value for found in commands(item)]
    if not isinstance(value, dict):
        return []
    own = [value["command"]] if " hook " in str(value.get("command")) else []
    return own + [found for item in value.values() for found in commands(item)]


CONTENTS = [
    *[("claude-code", ".claude/settings.json", text) for text in ("", "{}", "{\n}\n", OTHERS_HOOKS)],
    ("claude-code", ".claude/settings.json", OTHERS_HOOKS.rstrip("\n")),
    ("claude-code", ".claude/settings.json", OTHERS_HOOKS.replace("\n", "\r\n")),
    ("claude-code", ".claude/settings.json", OTHERS_HOOKS.replace("  ", "\t")),
    ("claude-code", ".claude/settings.json", "\ufeff" + OTHERS_HOOKS),
    ("claude-code", ".claude/settings.json", json.dumps(json.loads(OTHERS_HOOKS))),
    ("claude-code", ".mcp.json", SERVERS),
    ("claude-code", ".mcp.json", '{"mcpServers": {}}'),
    ("cursor", ".cursor/hooks.json", CURSORS_HOOKS),
    ("cursor", ".cursor/mcp.json", SERVERS.replace("\n", "\r\n")),
    ("gemini-cli", ".gemini/settings.json", OTHERS_HOOKS),
    ("qwen-code", ".qwen/settings.json", SERVERS),
    ("opencode", "opencode.json", '{\n  "mcp": {"files": {"type": "local", "command": ["files-mcp"]}}\n}\n'),
    *[("codex", ".codex/config.toml", text) for text in ("", "\n", TOML, HOOKS_TOML, TOML.rstrip("\n"))],
    ("codex", ".codex/config.toml", HOOKS_TOML.replace("\n", "\r\n")),
]


@pytest.mark.parametrize(("agent", "name", "content"), CONTENTS)
def test_what_is_installed_can_be_taken_back_byte_for_byte(
    agent: str, name: str, content: str, erl: Erl, command: Command
) -> None:
    write(command.folder, name, content)
    before = snapshot(command.folder)

    assert erl("install", agent) == 0
    installed = snapshot(command.folder)
    assert erl("install", agent) == 0
    again = snapshot(command.folder)
    assert erl("install", agent, "--uninstall") == 0

    assert set(FILES[agent]) <= set(installed)
    assert again == installed
    assert snapshot(command.folder) == before


@pytest.mark.parametrize("agent", AGENTS)
def test_files_and_folders_that_were_made_are_removed_again(agent: str, erl: Erl, command: Command) -> None:
    before = snapshot(command.folder)

    assert erl("install", agent) == erl("install", agent, "--uninstall") == 0
    assert snapshot(command.folder) == before
    assert erl("install", agent, "--uninstall") == 0  # nothing to do
    assert snapshot(command.folder) == before


def test_claude_code_gets_hooks_and_server_beside_those_of_others(erl: Erl, command: Command) -> None:
    settings = write(command.folder, ".claude/settings.json", OTHERS_HOOKS)
    servers = write(command.folder, ".mcp.json", json.dumps({"mcpServers": {"files": {}}}))

    erl("install", "claude-code", "--family", "till & shop")

    written, others = json.loads(settings.read_text()), json.loads(OTHERS_HOOKS)
    assert {name: value for name, value in written.items() if name != "hooks"} == {
        name: value for name, value in others.items() if name != "hooks"
    }
    assert written["hooks"]["Stop"][0] == others["hooks"]["Stop"][0]
    assert {event: commands(entries) for event, entries in written["hooks"].items()} == {
        "Stop": ["erl hook record --agent claude-code --family 'till & shop'"],
        "UserPromptSubmit": ["erl hook recall --agent claude-code --family 'till & shop'"],
        "SessionEnd": ["erl hook record --agent claude-code --family 'till & shop'"],
    }
    server = {"command": "erl", "args": ["mcp", "--family", "till & shop"]}
    assert json.loads(servers.read_text())["mcpServers"] == {"files": {}, "erl": server}


def test_codex_gets_a_marked_block_after_the_rest(erl: Erl, command: Command) -> None:
    settings = write(command.folder, ".codex/config.toml", HOOKS_TOML)

    erl("install", "codex")

    assert settings.read_text().startswith(HOOKS_TOML)
    written = tomllib.loads(settings.read_text())
    assert [hook["command"] for group in written["hooks"]["Stop"] for hook in group["hooks"]] == [
        "say done",
        "erl hook record --agent codex",
    ]
    assert commands(written["hooks"]["UserPromptSubmit"]) == ["erl hook recall --agent codex"]
    passed_on = ["ERL_URL", "ERL_API_KEY", "XDG_CONFIG_HOME"]  # which Codex keeps from its servers
    assert written["mcp_servers"]["erl"] == {"command": "erl", "args": ["mcp", "--repository"], "env_vars": passed_on}


def test_cursor_gets_hooks_in_its_own_form(erl: Erl, command: Command) -> None:
    erl("install", "cursor")

    assert json.loads((command.folder / ".cursor/hooks.json").read_text()) == {
        "version": 1,
        "hooks": {
            "sessionStart": [{"command": "erl hook recall --agent cursor"}],
            "stop": [{"command": "erl hook record --agent cursor"}],
        },
    }


def test_only_our_entries_are_taken_out_where_the_file_has_changed_since(erl: Erl, command: Command) -> None:
    settings = write(command.folder, ".claude/settings.json", OTHERS_HOOKS)
    codex = write(command.folder, ".codex/config.toml", TOML)
    erl("install", "claude-code")
    erl("install", "codex")
    settings.write_text(settings.read_text().replace('"Bash(ls:*)"', '"Bash(cat:*)"'))
    codex.write_text(codex.read_text() + '\n[profiles.fast]\nmodel = "small"\n')

    erl("install", "claude-code", "--uninstall")
    erl("install", "codex", "--uninstall")

    # An empty list that was there before has gone with our entry in it
    expected = OTHERS_HOOKS.replace("Bash(ls:*)", "Bash(cat:*)").replace(',\n    "UserPromptSubmit": []', "")
    assert settings.read_text() == expected
    assert codex.read_text() == TOML + '\n[profiles.fast]\nmodel = "small"\n'


def test_tables_that_codex_wrote_between_our_marks_stay(erl: Erl, command: Command) -> None:
    """A comment at the end of a TOML file stays at its end: what Codex adds stands before our closing mark."""
    codex = write(command.folder, ".codex/config.toml", TOML)
    erl("install", "codex")
    theirs = '[projects."/srv/shop"]\ntrust_level = "trusted"\n\n[[hooks.Stop]]\n[[hooks.Stop.hooks]]\n'
    theirs += 'type = "command"\ncommand = "say done"\n'
    our_end = "# <<< erl install codex <<<"
    changed = codex.read_text().replace(our_end, f"env = {{}}\n[mcp_servers.erl.tools]\nx = 1\n\n{theirs}{our_end}")
    codex.write_text(changed)

    erl("install", "codex", "--family", "two")
    moved = codex.read_text()
    erl("install", "codex", "--uninstall")

    assert tomllib.loads(moved)["projects"] == tomllib.loads(theirs)["projects"]
    assert moved.count("[mcp_servers.erl]") == moved.count(" --family two") - 1 == 1
    assert codex.read_text() == TOML + theirs


def test_hook_that_the_user_moved_is_found_and_the_rest_of_its_group_stays(erl: Erl, command: Command) -> None:
    ours = {"type": "command", "command": "/opt/erl/bin/erl hook record", "timeout": 5}
    theirs = {"type": "command", "command": "erlang hook record"}
    group = {"matcher": "", "hooks": [theirs, ours]}
    settings = write(
        command.folder, ".claude/settings.json", json.dumps({"hooks": {"Stop": [group, {"hooks": [ours]}]}})
    )

    erl("install", "claude-code", "--uninstall")

    assert json.loads(settings.read_text()) == {"hooks": {"Stop": [{"matcher": "", "hooks": [theirs]}]}}


def test_what_the_user_changed_of_our_entries_is_kept(erl: Erl, command: Command) -> None:
    erl("install", "claude-code")
    for name, old, new in (
        (".claude/settings.json", '"timeout": 10', '"timeout": 3'),
        (".mcp.json", '"args"', '"env": {"ERL_URL": "http://erl.example"}, "args"'),
    ):
        file = command.folder / name
        file.write_text(file.read_text().replace(old, new))
    before = snapshot(command.folder)

    erl("install", "claude-code")
    assert snapshot(command.folder) == before

    erl("install", "claude-code", "--uninstall")
    assert json.loads((command.folder / ".mcp.json").read_text()) == {}


def test_installing_for_another_family_takes_the_place_of_the_first(erl: Erl, command: Command) -> None:
    settings = write(command.folder, ".claude/settings.json", OTHERS_HOOKS)
    codex = write(command.folder, ".codex/config.toml", TOML)

    for family in ("one", "two"):
        erl("install", "claude-code", "--family", family)
        erl("install", "codex", "--family", family)
    assert {words.rpartition(" ")[2] for words in commands(json.loads(settings.read_text()))} == {"two"}
    assert {words.rpartition(" ")[2] for words in commands(tomllib.loads(codex.read_text()))} == {"two"}

    erl("install", "claude-code", "--uninstall")
    erl("install", "codex", "--uninstall")
    assert (settings.read_text(), codex.read_text()) == (OTHERS_HOOKS, TOML)


@pytest.mark.parametrize(
    ("agent", "name", "content", "reason"),
    [
        ("claude-code", ".claude/settings.json", b'{\n  "a": 1\n  "b": 2\n}', "line 3: a comma or the closing bracket"),
        ("claude-code", ".claude/settings.json", b"[]", "line 1: the file must be an object"),
        ("claude-code", ".claude/settings.json", b'{\n"hooks": []}', "line 2: hooks must be an object"),
        ("claude-code", ".claude/settings.json", b'{\n"hooks": {"Stop":\n 1}}', "line 3: hooks.Stop must be a list"),
        ("claude-code", ".mcp.json", b'{"a": "\xff"}', "line 1: this is not UTF-8"),
        (
            "claude-code",
            ".mcp.json",
            b'{"mcpServers": {\n"erl": {"command": "ls"}}}',
            "line 2: another MCP server already has",
        ),
        ("codex", ".codex/config.toml", b"a = 1\nb = \n", "line 2: Invalid value"),
        (
            "codex",
            ".codex/config.toml",
            b'[mcp_servers.erl]\ncommand = "ls"\n',
            "the file would be broken: Cannot declare",
        ),
        ("codex", ".codex/config.toml", b"hooks = {}\n", "the file would be broken"),
    ],
)
def test_broken_settings_are_refused_and_nothing_is_written(
    agent: str,
    name: str,
    content: bytes,
    reason: str,
    erl: Erl,
    command: Command,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(command.folder, name, "").write_bytes(content)
    before = snapshot(command.folder)

    assert erl("install", agent) == 1

    said = capsys.readouterr().err
    assert f"{command.folder / name}, line " in said
    assert reason in said
    assert said.endswith("Nothing was written.\n")
    assert snapshot(command.folder) == before


def test_link_and_mode_of_a_settings_file_are_kept(erl: Erl, command: Command) -> None:
    real = write(command.folder, "tools/claude.json", OTHERS_HOOKS)
    real.chmod(0o640)
    link = command.folder / ".claude" / "settings.json"
    link.parent.mkdir()
    link.symlink_to(real)

    erl("install", "claude-code")

    assert link.is_symlink()
    assert "erl hook record" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    erl("install", "claude-code", "--uninstall")
    assert (link.is_symlink(), real.read_text()) == (True, OTHERS_HOOKS)


def test_change_is_shown_and_written_only_if_the_user_agrees(command: Command) -> None:
    refused = command("install", "claude-code", stdin="\nn\n")
    assert refused.returncode == 1
    assert '+            "command": "erl hook recall --agent claude-code",' in refused.stdout
    assert "Nothing was written." in refused.stdout
    assert command("install", "claude-code").returncode == 130  # no answer
    assert not (command.folder / ".claude").exists()

    agreed = command("install", "claude-code", stdin="\ny\n")
    assert agreed.returncode == 0
    assert "Run `erl login` next" in agreed.stdout
    assert "--- /dev/null" in agreed.stdout
    assert (command.folder / ".claude" / "settings.json").exists()


def test_family_is_asked_for(command: Command) -> None:
    done = command("install", "claude-code", stdin="till\ny\n")

    assert "Use one project for each customer." in done.stdout
    assert "Task family [ana/shop]: " in done.stdout
    assert "Task family: till." in done.stdout
    written = (command.folder / ".claude" / "settings.json").read_text()
    assert "erl hook recall --agent claude-code --family till" in written


@pytest.mark.parametrize("arguments", [("--family", ""), ("--yes",)])
def test_family_is_that_of_the_repository_unless_one_is_named(arguments: tuple[str, ...], command: Command) -> None:
    done = command("install", "claude-code", *arguments, stdin="y\n")

    assert "Task family: ana/shop." in done.stdout
    assert "--family" not in (command.folder / ".claude" / "settings.json").read_text()


def test_plugin_of_others_is_left_alone(erl: Erl, command: Command, capsys: Said) -> None:
    plugin = write(command.folder, ".opencode/plugins/erl.js", "export const Mine = async () => ({})\n")

    assert erl("install", "opencode") == 1
    assert "this plugin is not ERL's" in capsys.readouterr().err
    assert "Mine" in plugin.read_text()


def test_hooks_for_all_projects_call_the_command_by_its_path(
    erl: Erl, command: Command, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for agent in AGENTS:
        assert erl("install", agent, "--user") == 0
    assert {
        str(file.relative_to(home)) for file in home.rglob("*") if file.is_file() and ".local" not in file.parts
    } == {
        ".claude/settings.json",
        ".claude.json",
        ".codex/config.toml",
        ".cursor/hooks.json",
        ".cursor/mcp.json",
        ".gemini/settings.json",
        ".qwen/settings.json",
    }
    server = json.loads((home / ".claude.json").read_text())["mcpServers"]["erl"]
    assert server == {"command": str(command.program), "args": ["mcp", "--repository"]}
    assert (tmp_path / "config" / "opencode" / "plugins" / "erl.js").exists()

    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    assert erl("install", "claude-code", "--user") == erl("install", "codex", "--user") == 0
    assert (tmp_path / "claude" / "settings.json").exists()
    assert (tmp_path / "claude" / ".claude.json").exists()
    assert (tmp_path / "codex" / "config.toml").exists()


def test_hooks_for_a_project_and_for_all_projects_are_said_to_come_twice(
    erl: Erl, capsys: pytest.CaptureFixture[str]
) -> None:
    erl("install", "cursor", "--user")
    assert "twice" not in capsys.readouterr().out

    erl("install", "cursor")
    assert "Lessons will be given twice: there are also hooks for all projects." in capsys.readouterr().out


def test_hook_can_be_run_as_it_is_written(
    erl: Erl, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaced = tmp_path / "my tools"
    command.program.parent.rename(spaced)
    monkeypatch.setenv("PATH", f"{spaced}{os.pathsep}{os.environ['PATH']}")
    erl("install", "claude-code", "--user", "--family", "it's mine")
    (hook,) = commands(json.loads((Path.home() / ".claude/settings.json").read_text())["hooks"]["Stop"])

    done = subprocess.run(hook, shell=True, input="{}", text=True, capture_output=True, check=False)  # noqa: S602

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_file_that_changes_between_look_and_write_is_left_alone(tmp_path: Path) -> None:
    first, second = write(tmp_path, "one.json", "{}"), write(tmp_path, "two.json", "{}")
    changes = [
        Change(path=path, before=b"{}", after=b'{"a": 1}', original=Original(content=b"{}")) for path in (first, second)
    ]
    second.write_text('{"b": 2}')

    with pytest.raises(ERLError, match="was changed by another program"):
        write_changes(changes)

    assert (first.read_text(), second.read_text()) == ("{}", '{"b": 2}')


def test_folder_that_is_missing_is_refused(erl: Erl, capsys: pytest.CaptureFixture[str]) -> None:
    assert erl("install", "codex", "--project", "nowhere") == 1
    assert "is not a folder" in capsys.readouterr().err


LINKS = [
    ("claude-code", ".claude/settings.json"),
    ("claude-code", ".claude"),
    ("claude-code", ".mcp.json"),
    ("codex", ".codex/config.toml"),
    ("codex", ".codex"),
    ("cursor", ".cursor/hooks.json"),
    ("cursor", ".cursor/mcp.json"),
]


@pytest.mark.parametrize(("agent", "link"), LINKS)
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("more", [[], ["--uninstall"]])
def test_link_out_of_the_project_is_refused(
    agent: str, link: str, exists: bool, more: list[str], command: Command, home: Path, capsys: Said
) -> None:
    target = home / "elsewhere"
    made = {True: target.mkdir if "." not in Path(link).name[1:] else target.touch, False: home.exists}[exists]
    made()
    (command.folder / link).parent.mkdir(exist_ok=True)
    (command.folder / link).symlink_to(target)
    before = snapshot(home)

    assert main(["install", agent, "--project", str(command.folder), "--yes", *more]) == 1

    assert f"is a link to {target}" in capsys.readouterr().err
    assert snapshot(home) == before


def test_link_of_the_user_is_followed_and_its_target_shown(erl: Erl, home: Path, tmp_path: Path, capsys: Said) -> None:
    real = write(tmp_path, "dotfiles/claude.json", OTHERS_HOOKS)
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").symlink_to(real)

    erl("install", "claude-code", "--user")

    assert "erl hook record" in real.read_text()
    assert f"Wrote {home / '.claude' / 'settings.json'} (in fact {real})" in capsys.readouterr().out


def test_install_says_to_which_family_the_project_belongs(erl: Erl, capsys: Said) -> None:
    erl("install", "claude-code")

    assert "Task family: ana/shop." in capsys.readouterr().out
