"""Processes that ask no model do not load what asks them, which takes seconds and 60 MB or more."""

import subprocess
import sys

from tests.stack import ROOT

WEB_PROCESS = """
import sys
from django.urls import get_resolver
import erl_site.asgi
get_resolver().url_patterns
WIRE = {"pydantic_ai", "openai", "anthropic", "groq", "mistralai"}
print(sorted({name.partition(".")[0] for name in sys.modules} & WIRE))
"""


def test_web_process_loads_nothing_that_asks_models() -> None:
    done = subprocess.run([sys.executable, "-c", WEB_PROCESS], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
