"""The page of a run (outline, Markdown, cost of a step, a lesson from a step), and an answer asked again."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from desk.shell.markdown import indent_json, render_markdown
from memory.heuristics.models import Heuristic
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory
from tests.factories import approve_as_read, make_heuristic, make_member, make_project, make_retrieval, make_trajectory

pytestmark = pytest.mark.django_db

STEPS = [
    {"index": 1, "thought": "Use `get_order`.", "metadata": {"duration_ms": 1234, "usage": {"total_tokens": 340}}},
    {
        "index": 2,
        "action": {"name": "get_order", "arguments": {"id": "7"}},
        "observation": '{"id": 7, "state": "sent"}',
    },
    {"index": 3, "action": {"name": "refund", "arguments": {}}, "error": "The order was already refunded."},
    {"index": 4, "observation": "# Policy\n- **No** second refund\n```\n<b>raw</b>\n```", "metadata": {"tokens": 12}},
]
LESSON = {
    "trigger": "about to refund an order",
    "guideline": "Look up its state first.",
    "polarity": "works",
    "task_id": "refunds",
    "quote": "The order was already refunded.",
}


def page_of(client: Client, run: Trajectory, **query: str) -> str:
    answer = client.get(reverse("admin:memory_trajectory_change", args=[run.pk]), query)
    assert answer.status_code == 200
    return answer.content.decode()


def log_in_reviewer(project: Project, *, role: str = "reviewer") -> Client:
    client = Client()
    names = ["review_heuristic", "view_heuristic", "view_trajectory", "view_retrieval"]
    client.force_login(make_member(project=project, role=role, permissions=names))
    return client


# ── Reading ───────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a `b` **c**", "<p>a <code>b</code> <strong>c</strong></p>"),
        ("## Head\ntext", '<p class="marked-heading">Head</p><p>text</p>'),
        ("- one\n2. two", "<ul><li>one</li><li>two</li></ul>"),
        ("```py\nx < 1\n```\nend", "<pre><code>x &lt; 1</code></pre><p>end</p>"),
        ("```\nopen", "<pre><code>open</code></pre>"),
        ("[a](javascript:x) <img src=x>", "<p>[a](javascript:x) &lt;img src=x&gt;</p>"),
        ("`<b>`", "<p><code>&lt;b&gt;</code></p>"),
        ("", ""),
    ],
)
def test_markdown_becomes_html_and_everything_is_escaped(text: str, html: str) -> None:
    assert render_markdown(text) == html


@pytest.mark.parametrize(("text", "shown"), [('{"a":1}', '{\n "a": 1\n}'), ("[1", ""), ("plain", ""), ("[" * 9000, "")])
def test_json_is_indented_if_it_is_json(text: str, shown: str) -> None:
    assert indent_json(text) == shown


def test_run_has_an_outline_of_its_steps(admin_client: Client) -> None:
    html = page_of(admin_client, make_trajectory(steps=STEPS))

    assert '<a href="#step-3"><span class="number">3</span> refund <span class="flag">error</span></a>' in html


def test_steps_say_their_tokens_and_time(admin_client: Client) -> None:
    html = page_of(admin_client, make_trajectory(steps=STEPS))

    assert "340 tokens · 1.2 s" in html
    assert "12 tokens" in html


def test_steps_are_drawn_as_markdown_and_json(admin_client: Client) -> None:
    html = page_of(admin_client, make_trajectory(steps=STEPS))

    assert "Use <code>get_order</code>." in html
    assert "<strong>No</strong> second refund" in html
    assert "&lt;b&gt;raw&lt;/b&gt;" in html
    assert "&quot;state&quot;: &quot;sent&quot;\n}" in html


def test_words_that_are_searched_for_are_still_marked(admin_client: Client) -> None:
    assert "<mark>second</mark>" in page_of(admin_client, make_trajectory(steps=STEPS), q="second")


# ── A lesson from a step ──────────────────────────────────────────────────────────────────────────────────────────
def lesson_page(run: Trajectory, step: int = 3) -> str:
    return reverse("admin:memory_trajectory_lesson", args=[run.pk, step])


def test_form_is_filled_in_from_the_step() -> None:
    run = make_trajectory(steps=STEPS, task_id="refunds")
    client = log_in_reviewer(run.project)
    assert lesson_page(run) in page_of(client, run)

    initial = client.get(lesson_page(run)).context["form"].initial

    assert (initial["trigger"], initial["polarity"]) == ("calling refund", "avoid")
    assert (initial["task_id"], initial["quote"]) == ("refunds", "The order was already refunded.")


def test_reviewer_proposes_a_lesson_that_cites_the_step() -> None:
    run = make_trajectory(steps=STEPS)

    log_in_reviewer(run.project).post(lesson_page(run), LESSON)

    heuristic = Heuristic.objects.select_related("current_revision").get()
    evidence = heuristic.evidence.get()
    assert heuristic.current_revision is not None
    assert (heuristic.status, heuristic.current_revision.created_by) == ("proposed", "user:ana")
    assert (evidence.trajectory, evidence.first_step, evidence.quote) == (run, 3, LESSON["quote"])


def test_words_that_the_step_lacks_are_refused() -> None:
    run = make_trajectory(steps=STEPS)

    answer = log_in_reviewer(run.project).post(lesson_page(run), LESSON | {"quote": "Never said."})

    assert answer.context["form"].errors
    assert not Heuristic.objects.exists()


def test_only_reviewers_of_the_project_propose() -> None:
    run = make_trajectory(steps=STEPS)
    auditor = log_in_reviewer(run.project, role="auditor")

    assert "Make a lesson" not in page_of(auditor, run)
    assert auditor.post(lesson_page(run), LESSON).status_code == 403
    auditor.force_login(make_member("ben", project=make_project(), permissions=["review_heuristic", "view_trajectory"]))
    assert auditor.post(lesson_page(run), LESSON).status_code == 404
    assert not Heuristic.objects.exists()


def test_step_that_is_not_there_is_not_found() -> None:
    run = make_trajectory(steps=STEPS)

    assert log_in_reviewer(run.project).get(lesson_page(run, 9)).status_code == 404


# ── Answers ───────────────────────────────────────────────────────────────────────────────────────────────────────
def again(client: Client, retrieval: Retrieval, **query: Any) -> Any:
    return client.get(reverse("admin:memory_retrieval_again", args=[retrieval.pk]), query).context


@pytest.fixture
def given() -> Retrieval:
    project = make_project()
    old = make_heuristic(project=project, trigger="a bag is lost", status="approved")
    new = make_heuristic(project=project, trigger="a refund is asked for", guideline="Check the refund policy.")
    approve_as_read(new, by=Actor(label="user:ana"))
    embed_heuristics([old.pk, new.pk])
    items = [{"heuristic": str(old.pk), "revision": 1, "injected": True, "scores": {}, "reason": ""}]
    return make_retrieval(project=project, task="A refund is asked for", heuristic_ids=[old.pk], items=items)


def test_answer_is_asked_again_without_being_written(given: Retrieval) -> None:
    shown = again(log_in_reviewer(given.project), given, mode="random", top_k=5, budget_tokens=1000)

    words = {heuristic.current_revision.trigger: move.word for move, heuristic in shown["lessons"]}
    assert words["a refund is asked for"] == "added"
    assert shown["other"].mode == "random"
    assert Retrieval.objects.count() == 1


def test_answers_of_one_family_are_compared(given: Retrieval) -> None:
    empty = make_retrieval(project=given.project)
    client = log_in_reviewer(given.project)

    assert [each.pk for each in again(client, given)["nearby"]] == [empty.pk]
    shown = again(client, given, **{"with": empty.pk})

    assert [move.word for move, _ in shown["lessons"]] == ["left out"]


@pytest.mark.parametrize("wanted", ["abc", "theirs"])
def test_answer_of_others_is_not_compared(given: Retrieval, wanted: str) -> None:
    named = str(make_retrieval(project=make_project()).pk) if wanted == "theirs" else wanted

    shown = again(log_in_reviewer(given.project), given, **{"with": named})

    assert shown["missing"]


@pytest.mark.parametrize("wrong", [{"mode": "erl"}, {"top_k": 0}, {"budget_tokens": 10**9}])
def test_settings_that_cost_money_or_are_out_of_range_are_refused(given: Retrieval, wrong: dict[str, Any]) -> None:
    asked = {"mode": "hybrid", "top_k": 5, "budget_tokens": 1000} | wrong

    shown = again(log_in_reviewer(given.project), given, **asked)

    assert shown["form"].errors
    assert "other" not in shown
