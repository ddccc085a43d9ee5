"""How many functions and modules of the project four requests enter.

    uv run python -m bench.request_paths [--json FILE] [--against FILE] [--list PATH]

Counted are POST /retrieve, POST /trajectories, one reflection by the offline rules and one decision at the review desk
(the POST alone, and with the page it leads to), each run in this process on a PostgreSQL and a broker of its own, with
the settings of a fresh installation.

A function counts once if its code is entered (`sys.setprofile`, all threads). Lambdas and comprehensions count as the
function around them; class bodies, migrations, tests, generated code and other packages do not count. `typical` is one
plain call after two others like it, with a new task, run or proposal. `can enter` is the union over all variants, first
calls with cold caches included. --against prints an earlier file of --json in a second line.
"""

import argparse
import json
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self
from uuid import uuid4

HOME = Path(tempfile.mkdtemp(prefix="erl-paths-")).resolve()
# The figures are those of a fresh installation, whatever is in the environment.
for name in [*os.environ]:
    if name.startswith(("ERL_", "CELERY_", "DATABASE_")):
        del os.environ[name]
os.environ |= {"ERL_HOME": str(HOME), "ERL_ENV_FILE": os.devnull, "DJANGO_SETTINGS_MODULE": "tests.settings"}
os.environ |= {"TEST_EMBEDDED_DURABLE": "0", "ERL_REFLECTOR": "rules"}
os.environ["ERL_RATE_LIMITS"] = "retrieve=100000000/60,trajectories:write=100000000/60"  # counted, never reached

import django  # noqa: E402

django.setup()

from django.apps import apps  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connections  # noqa: E402
from django.test import override_settings  # noqa: E402

from bench.request_clients import Api, Desk  # noqa: E402
from erl_site.celery import app as celery_app  # noqa: E402
from erl_site.embedded import postgres, valkey  # noqa: E402
from tests.scripted_answers import Behaviour, Exchange, answer  # noqa: E402
from tests.scripted_provider import ScriptedProvider  # noqa: E402
from tests.stack import PACKAGES, ROOT  # noqa: E402

SAMPLE = ROOT / "memory" / "sample_data" / "trajectories.jsonl"
SETTLED_SECONDS = 1.5  # after which a background thread has loaded what a request asked for
LABEL = re.compile(r'"id": ?"(L\d+)"')
_INNER = re.compile(r"(\.<locals>)?\.<\w+>(\.<locals>)?(?=\.|$)")

Function = tuple[str, str]  # module, qualified name


class Recorder:
    """Remembers the code that is entered while it is open, in every thread."""

    def __init__(self) -> None:
        self._codes: dict[int, CodeType] = {}

    def _note(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            # By identity, which is fast; the code is kept so that its id is not used again.
            self._codes[id(frame.f_code)] = frame.f_code

    def __enter__(self) -> Self:
        # This covers only threads that start from now on.
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *exc_info: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def functions(self) -> set[Function]:
        """Return the functions of the project among it."""
        # A copy, as threads may still run and add to it.
        names = (identify(code) for code in [*self._codes.values()])
        return {function for function in names if function}


def identify(code: CodeType) -> Function | None:
    """Return module and name of a function of the project, None for any other code."""
    # CO_NEWLOCALS: bodies of modules and classes lack it.
    is_body = not code.co_flags & 0x2
    path = Path(code.co_filename)
    if is_body or not path.is_relative_to(ROOT):
        return None
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] not in PACKAGES or "migrations" in parts:
        return None
    module = ".".join(parts).removesuffix(".__init__")
    return module, _INNER.sub("", code.co_qualname)


@dataclass(kw_only=True)
class Walk:
    """The functions that one path enters, in its typical request and in all variants."""

    typical: set[Function] = field(default_factory=set)
    union: set[Function] = field(default_factory=set)

    def run(self, variant: Callable[[], object], *, typical: bool = False) -> set[Function]:
        with Recorder() as recorder:
            variant()
        functions = recorder.functions()
        self.union |= functions
        if typical:
            self.typical = functions
        return functions

    def figures(self) -> dict[str, Any]:
        return {
            "typical_functions": len(self.typical),
            "typical_modules": len({module for module, _ in self.typical}),
            "union_functions": len(self.union),
            "union_modules": len({module for module, _ in self.union}),
            "functions": sorted(f"{module}:{name}" for module, name in self.union),
            "typical": sorted(f"{module}:{name}" for module, name in self.typical),
        }


def choose_all(exchange: Exchange) -> None:
    """Answer as a language model that finds every lesson it is shown useful."""
    labels = LABEL.findall(exchange.request.user_text)
    chosen = [{"id": label, "similarity": 9, "informativeness": 8} for label in labels]
    play: Behaviour = answer({"subtasks": [], "selected": chosen})
    play(exchange)


class Measurement:
    """The four paths, walked one after the other in one filled project."""

    def __init__(self) -> None:
        names = ("POST /retrieve", "POST /trajectories", "reflection", "decision", "decision and next page")
        self.walks = {name: Walk() for name in names}
        self.api = Api("filled")
        self.empty = Api("empty")
        self.desk = Desk()
        self.runs = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
        self._rings: list[tuple[str, tuple[str, ...]]] = []

    def walk_trajectories(self) -> None:
        walk, families = self.walks["POST /trajectories"], {run["task_id"] for run in self.runs}
        plain = {name: self.runs[0][name] for name in ("task", "task_id", "steps", "outcome", "score", "agent")}
        answered = self.empty.post("retrieve", {"task": plain["task"]})["retrieval_id"]
        card = {"mistake_type": "wrong fare", "bad_decision": "Cancelled.", "correct_decision": "Read the fare first."}
        chat = [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Cancel my flight."},
            {"role": "assistant", "content": "I look.", "tool_calls": [_tool_call("find", {"id": "EHGLP3"})]},
            {"role": "tool", "tool_call_id": "c1", "content": "basic economy"},
            {"role": "assistant", "content": "It cannot be cancelled."},
        ]
        variants: list[tuple[dict[str, Any], str]] = [
            (plain, ""),
            (plain | {"reflect": True}, ""),
            (plain | {"reflect": False}, ""),
            (plain | {"external_id": "one"}, ""),
            (plain | {"external_id": "one"}, ""),
            (plain, "same"),
            (plain, "same"),
            (plain | {"retrieval_id": answered}, ""),
            (plain | {"mistakes": ["It cancelled too soon."], "mistake_cards": [card]}, ""),
            (plain | {"mistake_cards": [card]}, ""),
            ({"messages": chat, "outcome": "failure"}, ""),
            ({"steps": chat, "score": 0.2}, ""),
            (plain | {"task": "Write to ana@example.org with the key sk-proj-0123456789abcdefghij"}, ""),
            (plain | {"steps": [], "task": "No steps"}, ""),
        ]
        for body, key in variants:
            walk.run(partial(self.empty.post, "trajectories", body, key=key))
        for family in families:
            # Seen three times, a mistake has happened often enough to be worth a card.
            for _ in range(3):
                self.api.post("trajectories", {"task": "x", "task_id": family, "mistake_cards": [card], "score": 0.1})
        walk.run(lambda: self.empty.post("trajectories", plain | {"task": "Another run"}), typical=True)

    def walk_reflection(self) -> None:
        """Record the sample runs and run the task that each of them rang for."""
        walk, heuristics = self.walks["reflection"], apps.get_model("memory.Heuristic").objects
        celery_app.loader.import_default_modules()
        send = celery_app.send_task
        # Tasks are caught instead of sent, and run here, where the recorder sees them.
        celery_app.send_task = lambda name, *, args, **rest: self._rings.append((name, tuple(args)))  # type: ignore[method-assign, assignment]
        try:
            for run in self.runs:
                self.api.post("trajectories", run | {"reflect": True})
                name, arguments = self._rings.pop()
                before = heuristics.count()
                functions = walk.run(partial(celery_app.tasks[name], *arguments))
                if heuristics.count() > before:
                    # In the end this is the walk of the last run with a lesson.
                    walk.typical = functions
        finally:
            celery_app.send_task = send  # type: ignore[method-assign]

    def walk_decisions(self) -> None:
        for model in ("memory.Heuristic", "memory.MistakeCard"):
            if not _exists(model):
                continue
            waiting = [*apps.get_model(model).objects.filter(status="proposed").order_by("created_at")]
            if model != "memory.Heuristic":
                for row in waiting:
                    self.desk.decide(self.desk.open(row), "approve")
                continue
            rejected, edited, retired = waiting[:3]
            edit: dict[str, Any] = {"guideline": "Read the fare class before anything is changed."}
            self._decide(rejected, "reject", reason_code="Wrong")
            self._decide(edited, "edit", **edit)
            self._decide(retired, "approve")
            self._decide(retired, "retire", reason="The policy changed.")
            for index, row in enumerate(waiting[3:]):
                self._decide(row, "approve", typical=index == 2)

    def _decide(self, row: Any, decision: str, *, typical: bool = False, **values: str) -> None:
        opened, following = self.desk.open(row), list[str]()
        alone, with_page = self.walks["decision"], self.walks["decision and next page"]
        functions = {
            *alone.run(lambda: following.append(self.desk.decide(opened, decision, **values)), typical=typical)
        }
        functions |= with_page.run(lambda: self.desk.follow(following[0]))
        with_page.union |= functions
        if typical:
            with_page.typical = functions

    def walk_retrieve(self) -> None:
        walk, family = self.walks["POST /retrieve"], self.runs[0]["task_id"]

        def ask(task: str = "", *, api: Api = self.api, key: str = "", typical: bool = False, **body: Any) -> None:
            question = {"task": task or f"Change the flight of passenger {uuid4()}"} | body
            walk.run(lambda: api.post("retrieve", question, key=key), typical=typical)

        def ask_everything() -> None:
            for _ in range(2):
                for mode in ("hybrid", "embedding", "lexical", "random", "none"):
                    ask(mode=mode)
                    ask("Cancel the reservation", mode=mode)
                ask("Cancel the reservation", task_id=family, agent="bot")
                ask(task_id=family, agent="bot", budget_tokens=300)
                ask(record=False)
                ask(boundary="random")
                ask(mode="random", seed="1")
                ask(families=[family], tags=["airline"], polarity="avoid", source_agents=["bot"])
                ask("Cancel the reservation", key=f"same-{len(walk.union)}")
                ask(self.runs[0]["task"], top_k=1, key="again")
                ask(self.runs[0]["task"], top_k=1, key="again")
                ask("Write to ana@example.org")
                ask(api=self.empty)
                # Background threads load what was asked for; the next round meets it in memory.
                time.sleep(SETTLED_SECONDS)

        ask_everything()
        with override_settings(ERL_RETRIEVE_MEMORY_MB=0), scripted_model():
            ask(mode="erl")
            ask("Cancel the reservation", mode="erl", task_id=family)
        # As in projects that are too large to be searched in memory.
        with override_settings(ERL_RETRIEVE_MEMORY_MB=0):
            ask_everything()
        for _ in range(2):
            ask()
        time.sleep(SETTLED_SECONDS)
        ask()
        ask(typical=True)

    def figures(self) -> dict[str, dict[str, Any]]:
        self.walk_trajectories()
        self.walk_reflection()
        self.walk_decisions()
        self.walk_retrieve()
        return {name: walk.figures() for name, walk in self.walks.items()}


@contextmanager
def scripted_model() -> Iterator[None]:
    with (
        ScriptedProvider(otherwise=choose_all) as provider,
        override_settings(
            ERL_LLM_PROVIDER="openai-compatible",
            ERL_LLM_MODEL="scripted-1",
            ERL_LLM_BASE_URL=provider.openai_url,
            ERL_LLM_ALLOW_LOOPBACK=True,
        ),
    ):
        yield


def _exists(model: str) -> bool:
    try:
        apps.get_model(model)
    except LookupError:
        return False
    return True


def _tool_call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


@contextmanager
def throw_away_installation() -> Iterator[None]:
    """A migrated database and a broker; log lines are written as always, but to nowhere."""
    with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere):
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler):
                handler.setStream(nowhere)
        try:
            postgres.ensure(HOME / "postgres", durable=False)
            valkey.ensure(HOME / "valkey", durable=False)
            call_command("migrate", verbosity=0)
            yield
        finally:
            connections.close_all()
            postgres.discard(HOME / "postgres")
            valkey.discard(HOME / "valkey")
            shutil.rmtree(HOME, ignore_errors=True)


def print_table(figures: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> None:
    columns = ("typical_functions", "typical_modules", "union_functions", "union_modules")
    heads = ("typical functions", "modules", "can enter: functions", "modules")
    print(f"| path | {' | '.join(heads)} |\n| --- | --- | --- | --- | --- |")
    for name, row in figures.items():
        old = before.get(name)
        cells = [f"{old[column]} → {row[column]}" if old else str(row[column]) for column in columns]
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, help="Write the figures and the names of the functions to this file.")
    parser.add_argument("--against", type=Path, help="Compare with an earlier file of --json.")
    parser.add_argument("--list", metavar="PATH", help="Print the functions of this path's typical request.")
    options = parser.parse_args()
    before = json.loads(options.against.read_text()) if options.against else {}
    with throw_away_installation():
        figures = Measurement().figures()
    print_table(figures, before)
    if options.list:
        print("\n".join(figures[options.list]["typical"]))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
