"""What the package is made of: the server's own converter, and nothing else of the server."""

import json
import subprocess
import sys
from pathlib import Path

from erl_client import transcripts

from memory import transcripts as of_server
from tests.stack import PACKAGES

SOURCE = Path(__file__).resolve().parents[2] / "clients" / "python" / "src"
# Each of these alone imports its framework.
FRAMEWORKS = [f"erl_client.{name}" for name in ("langchain", "openai_agents", "otel", "pydantic_ai")]
IMPORT_ALL = """
import importlib, json, pkgutil, sys
import erl_client

for module in pkgutil.walk_packages(erl_client.__path__, "erl_client."):
    if module.name not in FRAMEWORKS:
        importlib.import_module(module.name)
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def contents(folder: str) -> dict[str, str]:
    files = Path(folder).rglob("*.py")
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in files}


def test_converter_is_the_servers() -> None:
    assert contents(transcripts.__path__[0]) == contents(of_server.__path__[0])
    assert {"formats.py", "programs/codex.py"} <= set(contents(transcripts.__path__[0]))


def test_client_imports_nothing_of_the_server_nor_of_an_sdk() -> None:
    """In a process of its own, whose path has only the client and what is installed."""
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r})\nFRAMEWORKS = {FRAMEWORKS}\n{IMPORT_ALL}"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60)

    imported = set(json.loads(done.stdout))
    assert {"erl_client", "httpx"} <= imported
    assert not imported & {*PACKAGES, "django", "openai", "anthropic"}
    assert not imported & {"agents", "langchain", "langchain_core", "langgraph", "opentelemetry", "pydantic_ai"}


def test_hooks_import_neither_the_client_nor_httpx() -> None:
    """An agent waits for them: `import httpx` alone takes longer than a hook may."""
    code = f"import json, sys; sys.path.insert(0, {str(SOURCE)!r}); import erl_client.cli as cli\n"
    code += "cli.main(['hook', 'recall', '--help']); print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60)

    imported = set(json.loads(done.stderr))
    assert "erl_client.coding_agents.hooks" in imported
    assert not imported & {"httpx", "asyncio", "erl_client.client", "erl_client.transcripts.formats", "http.client"}
