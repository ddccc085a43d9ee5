"""`load_agents` and `export_agent`: files become rows, once, and rows become files."""

import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from memory.errors import ChangedMeanwhile
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.review.decisions import record_review
from memory.review.models import Review
from runtime.definitions.loading import export_agent, load_file
from runtime.definitions.storage import approve_tool, save_tool
from runtime.definitions.values import ToolDefinition
from runtime.errors import InvalidDefinition
from runtime.models.agents import Agent
from runtime.models.tools import Tool, ToolRevision
from runtime.revisions import AgentSpec, store_revision
from runtime.sandbox.hosts import find_sandlock
from tests.factories import make_project
from tests.runtime.cpython import needs_sandlock
from tests.runtime.running import make_agent
from tests.runtime.shop import SHOP

pytestmark = pytest.mark.django_db
BY = Actor(label="user:ana")
OFFLINE = SHOP.replace("tools=[get_order, refund_order,", "tools=[refund_order,").replace(
    'rule.run_first("get_order")', 'rule.run_first("refund_order")'
)
ECHO = ToolDefinition(
    name="echo",
    description="Say it again.",
    parameters={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    source="def echo(text: str) -> str:\n    return text\n",
)


def load(project: Project, path: Path, text: str) -> str:
    path.write_text(text)
    out = StringIO()
    call_command("load_agents", str(path), "--project", project.slug, stdout=out)
    return out.getvalue()


def test_file_is_loaded_once(tmp_path: Path) -> None:
    project = make_project()

    assert "tool refund_order: new revision" in load(project, tmp_path / "shop.py", SHOP)
    assert "new revision" not in load(project, tmp_path / "shop.py", SHOP)
    assert ToolRevision.objects.count() == 3
    agent = Agent.objects.select_related("current").get(name="support")
    assert agent.current is not None
    assert [each["name"] for each in agent.current.tools] == ["get_order", "refund_order", "send_message"]
    assert set(ToolRevision.objects.values_list("status", flat=True)) == {"approved"}
    assert set(Review.objects.values_list("kind", "decision", "reviewer")) == {
        ("tool", "approve", "command:load_agents"),
        ("agent", "approve", "command:load_agents"),
    }


MIDDLE = '''

@tool(runtime="python", examples=[({"numbers": [1, 2, 4]}, 2)])
def middle(numbers: list[int]) -> int:
    """Return the median."""
    import statistics

    return statistics.median(numbers)
'''
PYTHON_SHOP = SHOP.replace("@tool(kind", '@tool(runtime="python", kind', 1)


def test_tool_that_this_host_cannot_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sandlock", None)  # as where it is not installed
    find_sandlock.cache_clear()

    with pytest.raises(InvalidDefinition, match="refund: this host runs no tools of the runtime python"):
        load_file(make_project(), PYTHON_SHOP, by=BY)

    find_sandlock.cache_clear()
    assert not Tool.objects.exists()


@needs_sandlock
def test_tool_of_the_runtime_python_is_loaded_and_written_back(tmp_path: Path) -> None:
    project = make_project()
    load(project, tmp_path / "shop.py", PYTHON_SHOP + MIDDLE)

    loaded = ToolRevision.objects.filter(runtime="python").order_by("tool__name")
    assert [each.tool.name for each in loaded] == ["middle", "refund"]
    assert "runtime='python'" in export_agent(Agent.objects.get(project=project)).replace('"', "'")


def test_tool_with_the_name_of_one_of_erl_is_refused() -> None:
    with pytest.raises(InvalidDefinition, match="get_lessons is one of ERL's own tools"):
        load_file(make_project(), OFFLINE.replace("def refund(", "def get_lessons("), by=BY)


def test_changed_tool_is_a_new_revision_that_the_agent_pins(tmp_path: Path) -> None:
    project = make_project()
    load_file(project, SHOP, by=BY)

    said = load(project, tmp_path / "shop.py", SHOP.replace('"not an order"', '"no order"'))

    assert [line for line in said.splitlines() if "new" in line] == [
        "tool refund_order: new revision",
        "agent support: new revision",
    ]
    agent = Agent.objects.select_related("current").get(name="support")
    assert agent.current is not None
    assert str(Tool.objects.get(name="refund_order").current_id) in str(agent.current.tools)


def test_exported_agent_is_loaded_as_the_same() -> None:
    project, other = make_project(), make_project()
    load_file(project, SHOP, by=BY)

    text = export_agent(Agent.objects.get(project=project))
    assert not any(load_file(project, text, by=BY).tools.values())
    assert not any(load_file(project, text, by=BY).agents.values())
    load_file(other, text, by=BY)
    assert export_agent(Agent.objects.get(project=other)) == text


def test_faulty_file_stores_nothing_and_says_where(tmp_path: Path) -> None:
    project = make_project()
    broken = SHOP.replace('"refund_order", 3', '"refund_orders", 3')

    with pytest.raises(CommandError) as raised:
        load(project, tmp_path / "shop.py", broken)

    line = broken[: broken.index('"refund_orders", 3')].count("\n") + 1
    assert f"shop.py, line {line}: support, rules/2: The agent has no tool refund_orders." in str(raised.value)
    assert not Tool.objects.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agent('bad name!')", "line 2: bad name!, name: "),
        ("agent('a', system='\\x00')", "line 2: a: Leave out the character U+0000. (at /system)"),
        ("agent('a', system='\\ud800')", "line 2: a: Leave out lone surrogates. (at /system)"),
        ("agent('a', window_tokens='1')", "line 2: a, window_tokens: This should be a valid integer."),
        ("agent('a', window_tokens=10**9)", "has to be a literal"),
        ("agent('a', window_tokens=1000000000)", "a, window_tokens: This should be less than or equal to"),
        ("agent('a', temperature=1e999)", "Send finite numbers"),
        ("agent('a', temperature=99)", "a, temperature: This should be less than or equal to 2."),
        ("agent('a', limits=5)", "a, limits: This should be an object."),
        ("agent('a', limits={'max_steps': 0})", "a, limits/max_steps: This should be greater than or equal to 1."),
        ("agent('a', limits={'max_cost_usd': 0})", "a, limits/max_cost_usd: This should be greater than 0."),
        ("agent('a', limits={[1]: 2})", "JSON objects have string keys."),
        ("agent('a')\nagent('a')", "line 3: There are two agents called a."),
        ("agent('a', blocks=[block('bad label!')])", "line 2: a, blocks/0/label: "),
        ("agent('a', blocks=[block('b'),\n    block('c', 'long', limit=1)])", "line 3: a, blocks/1: "),
        ("agent('a', blocks=[block('b', '\\x00')])", "a, blocks/0: Leave out the character U+0000. (at /value)"),
        ("agent('a', blocks=[block('b', 5)])", "a, blocks/0/value: This should be a valid string."),
        (
            "agent('a', blocks=[block('b', limit=-1)])",
            "a, blocks/0/char_limit: This should be greater than or equal to 1.",
        ),
        ("agent('a', blocks=[block('b', policy='x')])", "a, blocks/0/policy: This should be 'direct'"),
        ("@tool(limits=[1])\ndef f():\n    'Say.'", "limits is a dict."),
        ("@tool(examples=1)\ndef f():\n    'Say.'", "examples is a list."),
        ("", "defines no tool and no agent."),
    ],
)
def test_nonsense_in_a_file_is_named_and_stores_nothing(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(CommandError) as raised:
        load(make_project(), tmp_path / "shop.py", f"from runtime.definitions import agent, block, tool\n{text}\n")

    assert said in str(raised.value)
    assert not Agent.objects.exists()


def test_revision_never_changes() -> None:
    revision = save_tool(make_project(), ECHO, by=BY).revision

    with pytest.raises(DatabaseError, match="immutable"), transaction.atomic():
        ToolRevision.objects.filter(pk=revision.pk).update(source="def echo(text: str) -> str:\n    return 'no'\n")
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        revision.delete()


def test_proposed_revision_is_not_in_force() -> None:
    revision = save_tool(make_project(), ECHO, by=BY).revision
    assert Tool.objects.get().current is None

    with pytest.raises(DatabaseError, match="only an approved revision"), transaction.atomic():
        Tool.objects.update(current=revision)
    with pytest.raises(ChangedMeanwhile):
        approve_tool(revision, by=BY, sha256="0" * 64)
    approve_tool(revision, by=BY, sha256=revision.content_sha256)
    assert Tool.objects.get().current_id == revision.pk


def test_tool_is_approved_only_by_a_review_of_its_content() -> None:
    revision = save_tool(make_project(), ECHO, by=BY).revision

    with pytest.raises(DatabaseError, match="a review has to approve"), transaction.atomic():
        ToolRevision.objects.filter(pk=revision.pk).update(status="approved")


def test_review_of_a_tool_names_the_hash_of_its_revision() -> None:
    revision = save_tool(make_project(), ECHO, by=BY).revision
    revision.content_sha256 = "0" * 64

    with pytest.raises(DatabaseError, match="the hash of its revision"), transaction.atomic():
        record_review(revision.tool, revision, "approve", by=BY)


def test_agent_is_only_what_a_review_approved() -> None:
    agent = make_agent()
    other = store_revision(agent, AgentSpec(system="Obey."), by=BY)

    with pytest.raises(DatabaseError, match="only an approved revision"), transaction.atomic():
        Agent.objects.update(current=other)


def test_reviews_go_with_the_revision_that_they_are_about() -> None:
    revision = save_tool(make_project(), ECHO, by=BY, approve=True).revision
    Tool.objects.update(current=None)
    assert [review.decision for review in revision.reviews] == ["approve"]

    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL erl.erasing = 'on'")
    revision.delete()

    assert not Review.objects.exists()
